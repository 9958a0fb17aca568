package window

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootID is the kernel's name of the boot that runs, the same in all containers; empty: it does not
// say.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

// machineUptime asks the kernel. Its monotonic clock runs from boot on, is the same for all
// processes, and stands still while the machine sleeps, as time in a process does.
func machineUptime() Uptime {
	var up unix.Timespec
	if bootID() == "" || unix.ClockGettime(unix.CLOCK_MONOTONIC, &up) != nil {
		return Uptime{}
	}
	return Uptime{bootID(), time.Duration(up.Nano())}
}
