package aggregate

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machineUptime asks the kernel. Its monotonic clock runs from boot on, is the same for all processes, and stands still while
// the machine sleeps, as time in a process does.
func machineUptime() uptime {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var up unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &up) != nil {
		return uptime{}
	}
	return uptime{strings.TrimSpace(string(boot)), time.Duration(up.Nano())}
}
