package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tree writes files below a folder that stands for "/".
func tree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return root
}

func TestCgroupMemoryLimit(t *testing.T) {
	const v1, v2 = "sys/fs/cgroup/memory/", "sys/fs/cgroup/"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64 // 0: no limit
		file  string
	}{
		"no cgroups":            {nil, 0, ""},
		"v2, no limit":          {map[string]string{"proc/self/cgroup": "0::/\n", v2 + "memory.max": "max\n"}, 0, ""},
		"v2, a container":       {map[string]string{"proc/self/cgroup": "0::/\n", v2 + "memory.max": "2147483648\n"}, 2 << 30, v2 + "memory.max"},
		"v2, out of its root":   {map[string]string{"proc/self/cgroup": "0::/../../pod1\n", v2 + "memory.max": "1048576\n"}, 1 << 20, v2 + "memory.max"},
		"v2, a parent is lower": {map[string]string{"proc/self/cgroup": "0::/a/b\n", v2 + "a/memory.max": "100\n", v2 + "a/b/memory.max": "200\n"}, 100, v2 + "a/memory.max"},
		"v2, a child is lower":  {map[string]string{"proc/self/cgroup": "0::/a/b\n", v2 + "a/memory.max": "300\n", v2 + "a/b/memory.max": "200\n"}, 200, v2 + "a/b/memory.max"},
		"v1, no limit":          {map[string]string{"proc/self/cgroup": "4:memory:/a\n0::/\n", v1 + "a/memory.limit_in_bytes": "9223372036854771712\n"}, 0, ""},
		"v1":                    {map[string]string{"proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/a\n", v1 + "a/memory.limit_in_bytes": "536870912\n"}, 512 << 20, v1 + "a/memory.limit_in_bytes"},
		"v1, a container":       {map[string]string{"proc/self/cgroup": "4:hugetlb,memory:/kubepods/pod1/c1\n", v1 + "memory.limit_in_bytes": "536870912\n"}, 512 << 20, v1 + "memory.limit_in_bytes"},
		"both":                  {map[string]string{"proc/self/cgroup": "4:memory:/a\n0::/b\n", v1 + "a/memory.limit_in_bytes": "300\n", v2 + "b/memory.max": "400\n"}, 300, v1 + "a/memory.limit_in_bytes"},
		"not a number":          {map[string]string{"proc/self/cgroup": "0::/\n", v2 + "memory.max": "-1\n"}, 0, ""},
	} {
		root := tree(t, c.files)
		got, limited := cgroupMemoryLimit(root)
		if got.bytes != c.want || limited != (c.want > 0) {
			t.Errorf("%s: %d, %t; want %d", name, got.bytes, limited, c.want)
		}
		if limited && got.file != filepath.Join(root, c.file) {
			t.Errorf("%s: read from %s, want %s", name, got.file, c.file)
		}
	}
}

// Bounds that are not set fit the memory limit together. Bounds that are set stay, and none grows
// beyond its default.
func TestMemoryBoundsFitTheLimit(t *testing.T) {
	nothingSet := func(string) bool { return false }
	limits := []int64{16 << 20, 128 << 20, 512 << 20, 2 << 30, 8 << 30}
	for i := range 2 * len(limits) {
		limit := limits[i/2]
		c, plain := defaultConfig(), defaultConfig()
		c.standalone, c.store.Dir = true, "data"
		if i%2 == 1 {
			c.agents.Address, c.agents.Insecure = ":9097", true
		}
		c.fitMemory(memoryLimit{bytes: limit}, nothingSet)
		c.complete()
		if err := c.validate(); err != nil {
			t.Errorf("%d: %v", limit, err)
		}
		outsideGo := int64(c.table.MaxSeries)*300 + min(leftForPrograms, limit/2)/2 // of the database's process
		if all := outsideGo + c.goMemoryLimit(); all > limit {
			t.Errorf("%d: the heap and what is outside it may take %d", limit, all)
		}
		if kept := bounded(c); kept > limit*9/10 {
			t.Errorf("%d: what is kept may take %d", limit, kept)
		}
		// The body that a connection has read, and the rest of what it takes.
		if one := int64(112 << 10); bounded(c)+int64(c.push.MaxConnections)*one+min(leftForPrograms, limit/2) > max(limit, 128<<20) ||
			c.push.MaxConnsPerIP*2 > c.push.MaxConnections && limit >= 128<<20 {
			t.Errorf("%d: with %d connections, %d of one address, all is above the limit", limit, c.push.MaxConnections, c.push.MaxConnsPerIP)
		}
		if c.push.MaxConnections > plain.push.MaxConnections || limit >= 2<<30 && c.push.MaxConnections != plain.push.MaxConnections {
			t.Errorf("%d: %d connections", limit, c.push.MaxConnections)
		}
		if c.table.MaxBytes > plain.table.MaxBytes || c.table.MaxSeries > plain.table.MaxSeries || c.groups.MaxBytes > plain.groups.MaxBytes {
			t.Errorf("%d: a bound is above its default: %d, %d, %d", limit, c.table.MaxSeries, c.table.MaxBytes, c.groups.MaxBytes)
		}
	}
	c := defaultConfig()
	c.fitMemory(memoryLimit{bytes: 512 << 20}, func(flag string) bool { return flag == "max-series" || flag == "max-bytes" })
	if plain := defaultConfig(); c.table.MaxSeries != plain.table.MaxSeries || c.table.MaxBytes != plain.table.MaxBytes {
		t.Errorf("bounds that were set are %d and %d now", c.table.MaxSeries, c.table.MaxBytes)
	}
	if c.groups.MaxBytes != 40<<20 {
		t.Errorf("groups may take %d, want an eighth of what is left for them", c.groups.MaxBytes)
	}
}

// bounded is what the bounds of a server let it keep.
func bounded(c *serverConfig) int64 {
	ofAgents := int64(0)
	if c.agents.Enabled() {
		ofAgents = c.agents.MaxBytes
	}
	return ofAgents + int64(c.table.MaxSeries)*300 + c.table.MaxBytes + c.groups.MaxBytes + c.receiver.Pending.MaxBytes
}

// inACgroup starts a server in a real cgroup with a limit (version 1 or 2; needs root) and returns
// the cgroup's folder and what the server says.
func inACgroup(t *testing.T, limit int64, args ...string) (group string, said io.Reader) {
	t.Helper()
	folder, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(folder); err != nil {
		folder, file = "/sys/fs/cgroup", "memory.max"
	}
	group = filepath.Join(folder, "sluice-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("cannot make a cgroup: ", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		t.Skip("cannot limit memory: ", err)
	}
	args = append([]string{"-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(group, "cgroup.procs"), os.Args[0]}, args...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Env = append(os.Environ(), asSluice+"=1")
	said, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	giveUp := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Error("the server was killed: ", cmd.ProcessState)
		}
		giveUp.Stop()
	})
	return group, said
}

// In a real cgroup a server says at start which bounds hold.
func TestServeInACgroup(t *testing.T) {
	group, said := inACgroup(t, 512<<20, append(onFreePorts(t.TempDir()), "--log-level", "info", "--http-max-group-bytes", "77MiB")...)
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		line := lines.Text()
		if !strings.Contains(line, "memory bounds") {
			continue
		}
		for _, want := range []string{"max_series=163840", "max_bytes=128MiB", "http_max_group_bytes=77MiB", "go_memory_limit=341MiB", "cgroup_limit=512MiB", "cgroup_file=" + group} {
			if !strings.Contains(line, want) {
				t.Errorf("the log does not say %s: %s", want, line)
			}
		}
		go func() { _, _ = io.Copy(io.Discard, said) }() // it must not block
		return
	}
	t.Error("the log does not say which bounds hold")
}
