package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// A powerDisk is an ext4 file system whose power can be cut. Its disk is a file of another file
// system. Freezing that one holds the disk at one moment. A copy of the file is then the disk's
// content at the power cut, without the file system's memory and the server's unwritten data.
type powerDisk struct {
	dir     string
	beneath *os.File // the folder of the file system that is frozen
}

const (
	powerDiskBytes    = 384 << 20 // sparse
	powerBeneathBytes = powerDiskBytes + 256<<20
	// powerFlag lets the server write to a disk of that size.
	powerFlag = "--min-free-disk=64MiB"
)

// FIFREEZE and FITHAW of linux/fs.h.
const (
	powerFreeze = 0xc0045877
	powerThaw   = 0xc0045878
)

func powerNewDisk(t *testing.T) *powerDisk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a disk whose power is cut is a loop device, which only root may mount")
	}
	d := &powerDisk{dir: t.TempDir()}
	powerMake(t, filepath.Join(d.dir, "beneath.img"), powerBeneathBytes)
	powerMount(t, filepath.Join(d.dir, "beneath.img"), d.beneathDir())
	powerMake(t, d.image(), powerDiskBytes)
	powerMount(t, d.image(), d.path())
	var err error
	d.beneath, err = os.Open(d.beneathDir())
	must(t, err, "open the file system")
	t.Cleanup(func() { _ = d.beneath.Close() }) // before it is unmounted
	return d
}

func (d *powerDisk) beneathDir() string { return filepath.Join(d.dir, "beneath") }
func (d *powerDisk) image() string      { return filepath.Join(d.dir, "beneath", "disk.img") }
func (d *powerDisk) path() string       { return filepath.Join(d.dir, "disk") }

// cut copies the disk's content at this moment.
func (d *powerDisk) cut(to string) (err error) {
	if err := powerIoctl(d.beneath, powerFreeze); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	defer func() { err = errors.Join(err, powerIoctl(d.beneath, powerThaw)) }()
	return powerCopy(d.image(), to)
}

func powerCopy(from, to string) error {
	if out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}

// outage cuts the power while a server runs: the server stands still, then ends, and the disk is mounted again as
// it was.
func (d *powerDisk) outage(t *testing.T, s *server.Server) {
	t.Helper()
	image := filepath.Join(d.dir, "cut.img")
	must(t, syscall.Kill(s.PID(), syscall.SIGSTOP), "stop the server")
	must(t, d.cut(image), "cut the power")
	s.Kill()
	must(t, powerUnmount(d.path()), "unmount")
	must(t, powerCopy(image, d.image()), "put the disk back")
	if out, err := exec.Command("mount", "-o", "loop", d.image(), d.path()).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
}

func powerIoctl(file *os.File, request uintptr) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, 0); errno != 0 {
		return errno
	}
	return nil
}

// powerMake makes a file system in a sparse file.
func powerMake(t *testing.T, image string, bytes int64) {
	t.Helper()
	must(t, errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, bytes)), "make an image")
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
}

// powerMount mounts an image until the test ends.
func powerMount(t *testing.T, image, at string) {
	t.Helper()
	must(t, os.MkdirAll(at, 0o700), "make a mount point")
	if out, err := exec.Command("mount", "-o", "loop", image, at).CombinedOutput(); err != nil {
		t.Skipf("loop devices cannot be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { must(t, powerUnmount(at), "unmount") })
}

// powerUnmount waits for the storage process, which may still end.
func powerUnmount(at string) error {
	err := error(syscall.EBUSY)
	for deadline := time.Now().Add(time.Minute); err == syscall.EBUSY && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		err = syscall.Unmount(at, 0)
	}
	return err
}

// A powerCut is a copy of the disk, and the newest value that was acknowledged as synced before it
// was made.
type powerCut struct {
	image        string
	after        time.Duration
	acknowledged int64
}

// powerMoments are the times of the power cuts, counted from the start of a server on an empty
// folder.
var powerMoments = []time.Duration{
	50 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, time.Second,
	1500 * time.Millisecond, 2500 * time.Millisecond, 4 * time.Second, 6 * time.Second, 8 * time.Second,
	10 * time.Second, 12 * time.Second,
}

// TestPowerCut: after a power cut at any moment of a new data folder's first seconds, every later
// start succeeds, and everything acknowledged with ?sync=true is there.
func TestPowerCut(t *testing.T) {
	disk, copies := powerNewDisk(t), t.TempDir()
	s := server.New(t, "--data-dir", filepath.Join(disk.path(), "data"), powerFlag)
	s.Binary() // made now, and not within the first moments
	var acknowledged atomic.Int64
	began := time.Now()
	cuts := make(chan []powerCut, 1)
	go func() {
		var made []powerCut
		for i, after := range powerMoments {
			time.Sleep(time.Until(began.Add(after)))
			cut := powerCut{image: filepath.Join(copies, fmt.Sprint(i)), after: time.Since(began), acknowledged: acknowledged.Load()}
			if err := disk.cut(cut.image); err != nil {
				t.Error(err)
				break
			}
			made = append(made, cut)
		}
		cuts <- made
	}()
	s.Start()
	ctx, cancel := context.WithCancel(context.Background())
	loaded := powerLoad(ctx, t, s.UDP)
	var made []powerCut
	for made == nil && !t.Failed() {
		value := acknowledged.Load() + 1
		if !powerPut(t, s.HTTP, value) {
			break
		}
		acknowledged.Store(value)
		select {
		case made = <-cuts:
		default:
		}
	}
	cancel()
	<-loaded
	s.Kill()
	for _, cut := range made {
		t.Run(cut.after.Round(time.Millisecond).String(), func(t *testing.T) { powerRestart(t, cut) })
	}
	t.Logf("%d cuts, %d values acknowledged", len(made), acknowledged.Load())
}

// powerRestart starts a server twice on the disk of a cut: the second start finds the files of the
// first.
func powerRestart(t *testing.T, cut powerCut) {
	at := filepath.Join(t.TempDir(), "disk")
	powerMount(t, cut.image, at)
	data := filepath.Join(at, "data")
	for range 2 {
		s := server.New(t, "--data-dir", data, powerFlag)
		s.Start()
		if got := powerGet(t, s.HTTP); got < cut.acknowledged {
			t.Errorf("depth is %d after the power cut, and %d was acknowledged", got, cut.acknowledged)
		}
		s.Stop()
	}
	if aside, _ := filepath.Glob(filepath.Join(data, "badger.*")); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}
	for _, name := range []string{"SLUICE", "kubeconfig", "ca.crt", "tls.crt", "tls.key"} {
		if stat, err := os.Stat(filepath.Join(data, name)); err != nil || stat.Size() == 0 {
			t.Errorf("%s is empty or missing after two starts: %v", name, err)
		}
	}
	if err := os.Remove(cut.image); err != nil {
		t.Error(err)
	}
}

// powerPut sets a gauge and waits until the server reports it on disk. A disk that is frozen for a
// copy delays that, and may cause a negative answer.
func powerPut(t *testing.T, address string, value int64) bool {
	url := "http://" + address + "/v1/namespaces/e2e/external/depth?sync=true"
	for deadline := time.Now().Add(server.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodPut, url, strings.NewReader(fmt.Sprint(value)))
		must(t, err, "push %d", value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("push of %d: %v", value, err)
			return false
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return true
		}
	}
	t.Errorf("push of %d: not acknowledged within 30 s", value)
	return false
}

// powerGet reads the gauge, 0 where there is none.
func powerGet(t *testing.T, address string) int64 {
	resp, err := http.Get("http://" + address + "/v1/namespaces/e2e/external/depth")
	must(t, err, "read the gauge")
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return 0
	}
	var answer struct {
		Items []struct {
			Value json.Number `json:"value"`
		} `json:"items"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Items) != 1 {
		t.Fatalf("depth: %s, %d items, %v", resp.Status, len(answer.Items), err)
	}
	value, err := answer.Items[0].Value.Int64()
	must(t, err, "read the gauge")
	return value
}

// powerLoad sends 20,000 samples a second of 20,000 series until ctx ends.
func powerLoad(ctx context.Context, t *testing.T, address string) (done chan struct{}) {
	conn, err := net.Dial("udp", address)
	must(t, err, "open a socket")
	done = make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; <-tick.C {
			var packet strings.Builder
			for range 20 {
				fmt.Fprintf(&packet, "load:1|c|#namespace:e2e,series:%d\n", i%20_000)
				i++
			}
			_, _ = conn.Write([]byte(packet.String())) // refused once the server has ended
		}
	}()
	return done
}
