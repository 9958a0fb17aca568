package main

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

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
