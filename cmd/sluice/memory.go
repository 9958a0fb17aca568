package main

import (
	"log/slog"
	"os"
	"runtime/debug"
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
