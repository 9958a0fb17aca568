package torture

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/child"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// powerStopTimeout is how long a server may take to end on a stalled disk.
const powerStopTimeout = 15 * time.Second

// TestStopOnFrozenDisk: SIGTERM while the disk is stalled ends the server within its timeout, with
// a message that says which samples were not written. The next start, once the disk continues, has
// everything acknowledged as synced.
func TestStopOnFrozenDisk(t *testing.T) {
	for name, stall := range map[string]time.Duration{"at once": 0, "after a sync hangs": 4 * time.Second} {
		t.Run(name, func(t *testing.T) {
			disk := powerNewDisk(t)
			data := filepath.Join(disk.path(), "data")
			s := server.New(t, "--data-dir", data, powerFlag)
			push, udp := server.FreeAddress(t, "tcp"), server.FreeAddress(t, "udp")
			cmd := exec.Command(s.Binary(), "serve", "--standalone", "--data-dir", data, powerFlag, "--sync-interval=1s",
				"--statsd-udp", udp, "--statsd-tcp", "127.0.0.1:0", "--http-address", push, "--api-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			process, err := child.Start(cmd)
			must(t, err, "start the server")
			defer process.Kill()
			powerAwait(t, push)
			ctx, cancel := context.WithCancel(context.Background())
			loaded := powerLoad(ctx, t, udp)
			powerPut(t, push, 5)
			must(t, powerIoctl(disk.beneath, powerFreeze), "freeze the disk")
			frozen := true
			thaw := func() {
				if frozen {
					frozen = false
					if err := powerIoctl(disk.beneath, powerThaw); err != nil {
						t.Error(err)
					}
				}
			}
			defer thaw()
			time.Sleep(stall)
			cancel()
			<-loaded
			began := time.Now()
			must(t, process.Signal(syscall.SIGTERM), "stop the server")
			select {
			case <-process.Done():
				t.Logf("ended after %v: %v", time.Since(began), process.Err())
			case <-time.After(powerStopTimeout):
				t.Errorf("still running %v after SIGTERM", powerStopTimeout)
				thaw()
				process.Kill()
			}
			said := stderr.String()
			if !regexp.MustCompile("what was applied after .* not on (disk|stable storage)").MatchString(said) {
				t.Errorf("it does not say what was not written:\n%s", said)
			}
			t.Log(said[strings.LastIndex(strings.TrimSpace(said), "\n")+1:])
			thaw()
			s.Start()
			if got := powerGet(t, s.HTTP); got != 5 {
				t.Errorf("depth is %d, and 5 was acknowledged", got)
			}
			s.Stop()
		})
	}
}

// powerAwait waits until HTTP push answers.
func powerAwait(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(server.Patience); ; time.Sleep(20 * time.Millisecond) {
		if resp, err := http.Get("http://" + address + "/-/healthy"); err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not answer after 30 s")
		}
	}
}
