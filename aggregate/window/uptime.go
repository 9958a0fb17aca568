package window

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootID returns the kernel's ID of the current boot, which is equal in all containers, or the
// empty string if it is unknown.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

// machineUptime reads the kernel's monotonic clock. It starts at boot, is equal for all processes,
// and stops while the machine sleeps, like the monotonic clock of a Go process.
func machineUptime() Uptime {
	var up unix.Timespec
	if bootID() == "" || unix.ClockGettime(unix.CLOCK_MONOTONIC, &up) != nil {
		return Uptime{}
	}
	return Uptime{bootID(), time.Duration(up.Nano())}
}
