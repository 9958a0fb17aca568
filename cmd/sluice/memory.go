package main

import (
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/pressure"
)

// The shares of a cgroup's memory limit. A fixed part is left for the idle server and for the
// storage process, whose memory is bounded by the sizes of its tables. In the rest, a series takes
// up to 300 bytes outside Go's heap, besides its names, which max-bytes bounds; the heap needs room
// for garbage.
const (
	leftForPrograms  = 192 << 20
	bytesOfASeries   = 2 << 10 // per series in the rest: a seventh of it is then series
	leastMemoryBound = 1 << 20
	// bytesOfAConnection is per connection of HTTP push in the rest. One with an unfinished body takes up to a quarter of it
	// here, and another one in the kernel.
	bytesOfAConnection, leastConnections = 448 << 10, 64
	// bytesOfAReader is per connection of the metrics APIs in the rest. One takes up to a quarter of it: for headers that do not
	// end, and for those of answers that are not read.
	bytesOfAReader = 1536 << 10
)

// fitMemory lowers the memory bounds that are not set to fit a cgroup's limit, in whole MiB. It
// never raises one.
func (c *serverConfig) fitMemory(limit memoryLimit, isSet func(flag string) bool) {
	c.memory = limit
	rest := limit.bytes - min(leftForPrograms, limit.bytes/2)
	lower := func(flag string, bound *int64, share int64) {
		if !isSet(flag) {
			*bound = min(*bound, max(share&^(1<<20-1), leastMemoryBound))
		}
	}
	lower("agents-max-bytes", &c.agents.MaxBytes, rest/8)
	names := rest / 5 * 2
	if c.agents.Enabled() {
		names -= c.agents.MaxBytes
	}
	lower("max-bytes", &c.table.MaxBytes, names)
	lower("http-max-group-bytes", &c.groups.MaxBytes, rest/8)
	if !isSet("max-series") {
		c.table.MaxSeries = min(c.table.MaxSeries, int(max(rest/bytesOfASeries, 1)))
	}
	few := func(flag string, bound *int, share int64) {
		if !isSet(flag) {
			*bound = min(*bound, max(int(share), leastConnections))
		}
	}
	few("http-max-connections", &c.push.MaxConnections, rest/bytesOfAConnection)
	few("http-max-connections-per-address", &c.push.MaxConnsPerIP, rest/bytesOfAConnection/4)
	c.api.MaxConnections = min(c.api.MaxConnections, max(int(rest/bytesOfAReader), leastConnections))
	c.receiver.Pending.MaxBytes = max(c.receiver.Pending.MaxBytesPerSender, min(c.receiver.Pending.MaxBytes, rest/16))
}

// goMemoryLimit is the soft limit of the Go heap: two thirds of the cgroup's limit. The remainder
// is for the series, which lie outside the heap, and for the storage process. 0: no limit.
func (c *serverConfig) goMemoryLimit() int64 { return c.memory.bytes / 3 * 2 &^ (1<<20 - 1) }

// boundMemory sets the limit of the Go heap and logs all memory bounds. GOMEMLIMIT overrides it.
func (c *serverConfig) boundMemory(log *slog.Logger) {
	attributes := []any{"max_series", c.table.MaxSeries, "max_bytes", newSize(&c.table.MaxBytes).String(),
		"http_max_group_bytes", newSize(&c.groups.MaxBytes).String(), "http_max_connections", c.push.MaxConnections}
	if c.agents.Enabled() {
		attributes = append(attributes, "agents_max_bytes", newSize(&c.agents.MaxBytes).String())
	}
	goLimit := c.goMemoryLimit()
	switch fromEnvironment := os.Getenv("GOMEMLIMIT"); {
	case fromEnvironment != "":
		attributes = append(attributes, "go_memory_limit", fromEnvironment)
	case goLimit > 0:
		debug.SetMemoryLimit(goLimit)
		attributes = append(attributes, "go_memory_limit", newSize(&goLimit).String())
	}
	if c.memory.bytes > 0 {
		attributes = append(attributes, "cgroup_limit", newSize(&c.memory.bytes).String(), "cgroup_file", c.memory.file)
	}
	log.Info("memory bounds", attributes...)
}

// memoryLimit is the limit of a cgroup, for the server and its storage process together.
type memoryLimit struct {
	bytes int64
	file  string // that holds the limit
}

// unlimited is the least value that means "no limit": cgroup v1 has the largest page-aligned int64.
const unlimited = 1 << 60

// cgroupMemoryLimit is the lowest memory limit of this process's cgroup and of its ancestors,
// version 1 or 2. The root is "/", except in tests. False: there is no limit.
//
// A container usually sees its own cgroup as the root of the tree, but version 1 still has the
// host's path in /proc/self/cgroup. Missing folders are therefore skipped, up to the root of the
// tree.
func cgroupMemoryLimit(root string) (lowest memoryLimit, limited bool) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return memoryLimit{}, false
	}
	for line := range strings.Lines(string(text)) {
		hierarchy, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, cgroup, _ := strings.Cut(rest, ":")
		tree, file := "sys/fs/cgroup", "memory.max"
		switch {
		case hierarchy == "0" && controllers == "":
		case strings.Contains(","+controllers+",", ",memory,"):
			tree, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := path.Clean("/" + cgroup); ; dir = path.Dir(dir) {
			name := filepath.Join(root, tree, dir, file)
			if n, ok := readMemoryLimit(name); ok && (!limited || n < lowest.bytes) {
				lowest, limited = memoryLimit{n, name}, true
			}
			if dir == "/" {
				break
			}
		}
	}
	return lowest, limited
}

// readMemoryLimit reads one file. "max" is no number, and no limit.
func readMemoryLimit(name string) (bytes int64, ok bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	bytes, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return bytes, err == nil && bytes > 0 && bytes < unlimited
}

// collectorPercent is GOGC, unless the environment sets it. The long-lived table is outside the
// heap, or without pointers in it, and a line allocates hardly anything: a low target costs no
// measurable time.
const collectorPercent = 25

// ballast is never touched, so it takes address space and no memory. It counts as heap: a small
// server whose HTTP pushes allocate then collects every 16 MiB instead of every one or two. A large
// server collects rarely anyway; with the ballast it would keep 16 MiB more garbage.
var ballast []byte

const (
	ballastBytes = 64 << 20
	ballastUntil = 4 * ballastBytes // of heap, with the ballast
	ballastLook  = 10 * time.Second
)

// tuneCollector is called after the restore: its heap grows from nothing, and a low target would
// collect it over and over. Go's limit counts the ballast.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		ballast = make([]byte, min(ballastBytes, debug.SetMemoryLimit(-1)/8))
		runtime.KeepAlive(ballast) // for linters: a variable that is only written counts as unused
		debug.SetGCPercent(collectorPercent)
		time.AfterFunc(ballastLook, lookAtBallast)
	}
}

// lookAtBallast drops the ballast if the heap is large, or checks again later.
func lookAtBallast() {
	if !dropBallast() {
		time.AfterFunc(ballastLook, lookAtBallast)
	}
}

// dropBallast drops the ballast from a large heap, or where memory is short, for good, and reports whether it is gone.
func dropBallast() bool {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(live); live[0].Value.Uint64() >= ballastUntil || pressure.High() {
		ballast = nil
	}
	return ballast == nil
}
