package loadtest

import (
	"errors"
	"fmt"
	"os"
)

// resetPeak makes the most that was ever resident of a process, and those that it started, what is resident now:
// proc_pid_clear_refs(5).
func resetPeak(pid int) error {
	var errs []error
	for _, one := range family(pid) {
		errs = append(errs, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", one), []byte("5"), 0))
	}
	return errors.Join(errs...)
}
