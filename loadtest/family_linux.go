package loadtest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// family is a process and those that it started: what they take, it takes. Each parent comes before its children.
func family(pid int) []int {
	parents := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if one, err := strconv.Atoi(e.Name()); err == nil {
			parents[one] = parentOf(one)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		for one, parent := range parents {
			if parent == all[i] {
				all = append(all, one)
			}
		}
	}
	return all
}

// parentOf is 0 for a process that is gone: proc_pid_stat(5).
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name before it may hold anything
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}
