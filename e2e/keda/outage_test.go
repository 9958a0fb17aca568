package keda

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// reconnected bounds the time until the operator has a stream again: it waits 2 s after a stream that
// ended well, and twice as long after each failure.
const reconnected = 10 * time.Second

// restarts are the ways in which a server comes back.
var restarts = []struct {
	name string
	stop func(*testing.T, *scaled)
}{
	{"stopped", func(_ *testing.T, s *scaled) { s.sluice.Stop() }},
	{"killed", func(_ *testing.T, s *scaled) { s.sluice.Kill() }},
	{"upgraded", func(t *testing.T, s *scaled) {
		another := anotherBinary(t) // KEDA scales to zero if the server is away for as long as a build
		s.sluice.Stop()
		s.sluice.Runs(another)
	}},
}

// A server that comes back has the value, so replicas stay, and the operator follows its stream
// again, so a push wakes a workload that is at zero by then.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	for _, restart := range restarts {
		t.Run(restart.name, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, restart.name)
			s.scaleByPush(t, 3, 3)
			s.push(t, jobs(35))
			s.awaitReplicas(t, 4)
			time.Sleep(2 * time.Second) // a kill loses a second of samples at most
			restart.stop(t, s)
			s.sluice.Start()
			s.steady(t, 4, 8*time.Second)
			s.push(t, jobs(0))
			s.awaitReplicas(t, 0)
			s.awaitStream(t)
			t.Logf("after the push: %s", s.wokenByStream(t, jobs(1)))
		})
	}
}

// The stream of an idle trigger is open again soon after each restart, without a poll's help: after a stream
// that ends with an error the operator waits twice as long as the last time.
func TestStreamIsOpenedAgain(t *testing.T) {
	t.Parallel()
	s := prepare(t, "again")
	s.scaleByPush(t, 300, 5)
	for range 4 {
		s.sluice.Stop()
		s.sluice.Start()
		began := time.Now()
		s.awaitStream(t)
		took := time.Since(began)
		t.Logf("the stream was open again after %s", took)
		if took > reconnected {
			t.Errorf("the stream was open again after %s, want at most %s", took, reconnected)
		}
	}
	s.woken(t, pushed, func() { s.push(t, jobs(1)) })
}

// While a server hangs, KEDA keeps the replicas. Afterwards stream and polls go on.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	s := prepare(t, "hangs")
	s.scaleByPush(t, 3, 3)
	s.push(t, jobs(35))
	s.awaitReplicas(t, 4)
	pid := s.sluice.PID()
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	frozen := true
	resume := func() {
		if frozen {
			frozen = false
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Error(err)
			}
		}
	}
	defer resume()
	s.steady(t, 4, 12*time.Second)
	resume()
	s.push(t, jobs(0))
	s.awaitReplicas(t, 0)
	s.awaitStream(t)
	s.wokenByStream(t, jobs(1))
}

// anotherBinary is the server with another commit in its version.
func anotherBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X github.com/sluice-metrics/sluice.commit=another", "-o", path, "./cmd/sluice")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}
