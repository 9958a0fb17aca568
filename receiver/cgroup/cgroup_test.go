package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// tree is a folder of cgroups that the test writes.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) *tree {
	tree := &tree{t, t.TempDir()}
	tree.write("cgroup.controllers", "cpu io memory pids\n")
	tree.write("cpu.stat", "usage_usec 90000000\nuser_usec 1\n")
	tree.write("memory.stat", "anon 700\nfile 300\ninactive_file 100\n") // the root has no memory.current
	return tree
}

func (t *tree) write(path, text string) {
	t.t.Helper()
	path = filepath.Join(t.root, path)
	must(t.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t.t, os.WriteFile(path, []byte(text), 0o644))
}

// container writes the files of a container.
func (t *tree) container(folder string, micros, current, inactive int) {
	t.t.Helper()
	t.write(folder+"/cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 7\n", micros))
	t.write(folder+"/memory.current", fmt.Sprintln(current))
	t.write(folder+"/memory.stat", fmt.Sprintf("anon 5\nfile 9\nactive_file 4\ninactive_file %d\n", inactive))
}

func (t *tree) source() *Source {
	t.t.Helper()
	s, err := New(Config{t.root})
	must(t.t, err)
	return s
}

func (t *tree) read(s *Source) *metric.UsagePage {
	t.t.Helper()
	page, err := s.Read(t.t.Context())
	must(t.t, err)
	return page
}

// relisted reads until the folders were listed again.
func (t *tree) relisted(s *Source) (page *metric.UsagePage) {
	t.t.Helper()
	for range listEvery {
		page = t.read(s)
	}
	return page
}

func id(n int) string { return fmt.Sprintf("%064x", n) }

const uid = "0a1b2c3d-0000-4000-8000-000000000001"

// Containers of all classes are found with either cgroup driver of the kubelet and each runtime, and nothing else is.
func TestFolders(t *testing.T) {
	slice := strings.ReplaceAll(uid, "-", "_")
	for name, all := range map[string]struct{ containers, others []string }{
		"systemd": {[]string{
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + id(1) + ".scope",
			"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/crio-" + id(2) + ".scope",
			"kubepods.slice/kubepods-pod" + slice + ".slice/docker-" + id(3) + ".scope",
		}, []string{
			"kubepods.slice/kubepods-pod" + slice + ".slice/crio-conmon-" + id(4) + ".scope",
			"kubepods.slice/kubepods-pod" + slice + ".slice/docker-" + id(3) + ".scope/init-" + id(5) + ".scope",
			"system.slice/docker-" + id(6) + ".scope",
			"kubepods.slice/kubepods-other.slice/docker-" + id(7) + ".scope",
		}},
		"cgroupfs": {[]string{
			"kubepods/burstable/pod" + uid + "/" + id(1), "kubepods/besteffort/pod" + uid + "/crio-" + id(2), "kubepods/pod" + uid + "/" + id(3),
		}, []string{"kubepods/pod" + uid + "/short", "kubepods/" + id(4)}},
		"kind":        {[]string{"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + id(1) + ".scope"}, nil},
		"cgroup root": {[]string{"kubelet/kubepods/burstable/pod" + uid + "/" + id(1)}, nil},
	} {
		tree := newTree(t)
		for i, folder := range all.containers {
			tree.container(folder, 1000*(i+1), 5000, 1000)
		}
		for _, folder := range all.others {
			tree.container(folder, 1, 1, 0)
		}
		page := tree.read(tree.source())
		if len(page.Unnamed) != len(all.containers) || page.Faults != 0 {
			t.Errorf("%s: %d containers and %d faults (%s), want %d: %v", name, len(page.Unnamed), page.Faults, page.FirstFault, len(all.containers), page.Unnamed)
		}
		for i := range all.containers {
			if r := page.Unnamed[id(i+1)]; r.CPU != time.Duration(i+1)*time.Millisecond || r.Memory != 4000 || r.MemoryAt.IsZero() || !r.Started.IsZero() {
				t.Errorf("%s: container %d is %+v", name, i+1, r)
			}
		}
		if node := page.Readings[metric.Container{}]; node.CPU != 90*time.Second || node.Memory != 900 || len(page.Readings) != 1 {
			t.Errorf("%s: the node is %+v", name, node)
		}
	}
}

// A folder that is no root of cgroup v2 says what it is, and what is right.
func TestFoldersThatCannotBe(t *testing.T) {
	root := t.TempDir()
	cannot := func(want string) {
		t.Helper()
		if _, err := New(Config{root}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
	cannot("has no file cgroup.controllers")
	must(t, os.Mkdir(filepath.Join(root, "memory"), 0o755))
	cannot("has the folders of cgroup v1; must be cgroup v2. Have the kubelet asked instead (--kubelet-address)")
	must(t, os.WriteFile(filepath.Join(root, "cgroup.controllers"), nil, 0o644))
	cannot("has no folder of pods")
	root = filepath.Join(root, "absent")
	cannot("no such file or directory")
}

// A container that comes after the first reading has its start, one that ends between two files is left out, and a file
// that says nonsense is a fault of that container alone.
func TestContainersComeAndGo(t *testing.T) {
	tree := newTree(t)
	pod := "kubepods/burstable/pod" + uid + "/"
	tree.container(pod+id(1), 1000, 10, 0)
	s := tree.source()
	if r := tree.read(s).Unnamed[id(1)]; !r.Started.IsZero() {
		t.Errorf("a container of before began at %v", r.Started)
	}
	began := time.Now()
	tree.container(pod+id(2), 1000, 10, 20)
	tree.container("kubepods/pod"+strings.ToUpper(uid)+"/"+id(3), 1000, 10, 0) // another pod
	tree.write(pod+id(4)+"/memory.current", "5\n")                             // its cpu.stat has gone
	tree.write(pod+id(5)+"/cpu.stat", "usage_usec 5\n")                        // no memory controller
	tree.write(pod+id(6)+"/cpu.stat", "nr_periods 5\n")
	tree.write(pod+id(7)+"/cpu.stat", "usage_usec -5\n")
	page := tree.relisted(s)
	if r := page.Unnamed[id(2)]; r.Started.Before(began.Add(-time.Second)) || r.Started.After(time.Now()) || r.Memory != 0 || r.MemoryAt.IsZero() {
		t.Errorf("a new container is %+v", r)
	}
	if r := page.Unnamed[id(5)]; r.CPUAt.IsZero() || !r.MemoryAt.IsZero() {
		t.Errorf("a container without memory is %+v", r)
	}
	if len(page.Unnamed) != 4 || page.Faults != 2 || !strings.Contains(page.FirstFault, pod) {
		t.Errorf("%d containers and %d faults: %s", len(page.Unnamed), page.Faults, page.FirstFault)
	}
	again := tree.read(s)
	if again.Unnamed[id(2)].Started != page.Unnamed[id(2)].Started {
		t.Error("the start of a container changes")
	}
	// One that ends has another one in its place at the next reading but one.
	must(t, os.RemoveAll(filepath.Join(tree.root, pod+id(4))))
	for range 2 * listEvery {
		if tree.read(s); s.unlisted == 0 {
			break
		}
	}
	must(t, os.RemoveAll(filepath.Join(tree.root, pod+id(1))))
	tree.container(pod+id(8), 1000, 10, 0)
	tree.read(s)
	if page := tree.read(s); page.Unnamed[id(8)].Started.IsZero() || !page.Unnamed[id(1)].CPUAt.IsZero() {
		t.Errorf("after a container another one: %v", page.Unnamed)
	}
	must(t, os.RemoveAll(filepath.Join(tree.root, "kubepods")))
	if page := tree.read(s); len(page.Unnamed) != 0 || page.Faults != 0 {
		t.Errorf("without pods there are %d containers and %d faults", len(page.Unnamed), page.Faults)
	}
}

// A node may have 10,000 containers, and no more than any source says.
func TestManyContainers(t *testing.T) {
	tree := newTree(t)
	if memory, err := os.MkdirTemp("/dev/shm", "sluice"); err == nil { // a disk takes long for so many files
		defer os.RemoveAll(memory)
		must(t, os.CopyFS(memory, os.DirFS(tree.root)))
		tree.root = memory
	}
	for i := range 10_000 {
		tree.write(fmt.Sprintf("kubepods/burstable/pod%d/%s/cpu.stat", i/4, id(i)), fmt.Sprintf("usage_usec %d\n", i))
	}
	s := tree.source()
	if page := tree.read(s); len(page.Unnamed) != 10_000 || page.Faults != 0 || page.Unnamed[id(9_999)].CPU != 9_999*time.Microsecond {
		t.Errorf("%d containers and %d faults", len(page.Unnamed), page.Faults)
	}
}

// The kernel's own files are read, where this machine lets the test make a cgroup.
func TestRealCgroup(t *testing.T) {
	root := ""
	for _, folder := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(folder, "cgroup.controllers")); err == nil {
			root = folder
		}
	}
	if root == "" {
		t.Skip("there is no cgroup v2 at /sys/fs/cgroup")
	}
	pods := filepath.Join(root, fmt.Sprintf("sluice-test-%d", os.Getpid()), "kubepods")
	folder := filepath.Join(pods, "pod"+uid, id(1))
	defer func() {
		for path := folder; path != root; path = filepath.Dir(path) {
			_ = os.Remove(path)
		}
	}()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	busy := exec.Command("sh", "-c", "read go; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo; read end")
	in, _ := busy.StdinPipe()
	out, _ := busy.StdoutPipe()
	if err := busy.Start(); err != nil {
		t.Skipf("no shell: %v", err)
	}
	defer func() { _ = busy.Process.Kill(); _ = busy.Wait() }()
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), fmt.Append(nil, busy.Process.Pid), 0o644); err != nil {
		t.Skipf("no process can be put into a cgroup: %v", err)
	}
	s, err := New(Config{root})
	must(t, err)
	read := func() metric.UsageReading {
		page, err := s.Read(t.Context())
		if err != nil || page.Faults != 0 || page.Readings[metric.Container{}].CPU == 0 {
			t.Fatalf("%v, %d faults: %s; the node: %+v", err, page.Faults, page.FirstFault, page.Readings)
		}
		return page.Unnamed[id(1)]
	}
	before := read()
	fmt.Fprintln(in, "go")
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	after := read()
	if grown := after.CPU - before.CPU; grown <= 0 || grown > after.CPUAt.Sub(before.CPUAt)+time.Second {
		t.Errorf("100,000 rounds of a shell took %v within %v", grown, after.CPUAt.Sub(before.CPUAt))
	}
	text, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if memory := err == nil && bytes.Contains(text, []byte("memory")); memory != !after.MemoryAt.IsZero() {
		t.Errorf("the folder has the controllers %q, and the memory is %+v", text, after)
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
