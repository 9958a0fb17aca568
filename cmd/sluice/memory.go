package main

import (
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// The shares of a cgroup's memory limit. A part is left for the programs themselves: the server at rest, and the
// database's process, whose memory is bounded by the sizes of its tables. Of the rest a series takes up to 300 bytes
// outside Go's heap beside its names, which max-bytes bounds, and the heap needs room for garbage.
const (
	leftForPrograms  = 192 << 20
	bytesOfASeries   = 2 << 10 // of the rest, so that a seventh of it is series
	leastMemoryBound = 1 << 20
)

// fitMemory lowers the memory bounds that nobody set to what fits a cgroup's limit, in whole MiB. It never raises one.
func (c *serverConfig) fitMemory(limit memoryLimit, isSet func(flag string) bool) {
	c.memory = limit
	rest := limit.bytes - min(leftForPrograms, limit.bytes/2)
	lower := func(flag string, bound *int64, share int64) {
		if !isSet(flag) {
			*bound = min(*bound, max(share&^(1<<20-1), leastMemoryBound))
		}
	}
	lower("max-bytes", &c.table.MaxBytes, rest/5*2)
	lower("http-max-group-bytes", &c.groups.MaxBytes, rest/8)
	if !isSet("max-series") {
		c.table.MaxSeries = min(c.table.MaxSeries, int(max(rest/bytesOfASeries, 1)))
	}
	c.receiver.Pending.MaxBytes = max(c.receiver.Pending.MaxBytesPerSender, min(c.receiver.Pending.MaxBytes, rest/16))
}

// goMemoryLimit is the soft limit of the Go heap: two thirds of the cgroup's. What remains is for the series, which
// lie outside the heap, and for the database's process. 0: the heap has none.
func (c *serverConfig) goMemoryLimit() int64 { return c.memory.bytes / 3 * 2 &^ (1<<20 - 1) }

// boundMemory says which bounds hold, and gives Go its own. GOMEMLIMIT, where it is set, wins.
func (c *serverConfig) boundMemory(log *slog.Logger) {
	attributes := []any{"max_series", c.table.MaxSeries, "max_bytes", newSize(&c.table.MaxBytes).String(),
		"http_max_group_bytes", newSize(&c.groups.MaxBytes).String()}
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

// memoryLimit is what a cgroup lets the server and its database's process have together.
type memoryLimit struct {
	bytes int64
	file  string // that says so
}

// unlimited is where cgroup v1 begins to mean "no limit": it says the largest page-aligned int64.
const unlimited = 1 << 60

// cgroupMemoryLimit is the lowest memory limit of this process' cgroup and of the cgroups around it, version 1 or 2. The
// root is "/", but for tests. False: there is none.
//
// A container usually sees its own cgroup as the root of the tree, while version 1 still names the host's path in
// /proc/self/cgroup. Folders that are missing are therefore skipped, up to the root of the tree.
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
