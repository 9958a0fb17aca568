package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

// A serving is this binary as a server in a process of its own.
type serving struct {
	t       *testing.T
	cmd     *exec.Cmd
	stderr  io.ReadCloser
	ops, at string // URLs of the operations port and of HTTP push
	done    chan error
}

var addresses = regexp.MustCompile(`(?s)HTTP\s+(http://\S+)/v1\n.*(http://\S+)/readyz`)

// startServing starts a server and waits for its banner.
func startServing(t *testing.T, dir string, flags ...string) *serving {
	t.Helper()
	return startServingBy(t, exec.Command(os.Args[0], onFreePorts(dir, append(flags, "--log-level=info")...)...))
}

func startServingBy(t *testing.T, cmd *exec.Cmd) *serving {
	t.Helper()
	s := &serving{t: t, cmd: cmd, done: make(chan error, 1)}
	s.cmd.Env = append(os.Environ(), asSluice+"=1")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := s.cmd.StdoutPipe()
	must(t, err)
	s.stderr, err = s.cmd.StderrPipe()
	must(t, err)
	must(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	var said strings.Builder
	for lines := bufio.NewScanner(stdout); !strings.Contains(said.String(), "Try it") && lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
	}
	found := addresses.FindStringSubmatch(said.String())
	if found == nil {
		errs, _ := io.ReadAll(s.stderr)
		t.Fatalf("no addresses in %q\n%s", said.String(), errs)
	}
	s.at, s.ops = found[1], found[2]
	go func() {
		_, _ = io.Copy(io.Discard, stdout)
		s.done <- s.cmd.Wait()
	}()
	return s
}

func (s *serving) signal(signal os.Signal) {
	s.t.Helper()
	must(s.t, s.cmd.Process.Signal(signal))
}

func (s *serving) mustEndWell() {
	s.t.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Fatalf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		s.t.Fatal("it still runs after a minute")
	}
}

func (s *serving) ask(method, url, body string) string {
	s.t.Helper()
	status, text := asked(s.t, method, url, body)
	if status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, url, status, text)
	}
	return text
}

const depth = "/v1/namespaces/shop/external/depth"

// A server that is told to stop while it starts has not failed, whether its data folder is new or
// not.
func TestStopDuringTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, folder := range []string{"new", "restored from"} {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		var out, errs strings.Builder
		code := run(ctx, onFreePorts(dir, "--log-level=info"), command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if code != command.ExitOK || out.Len() > 0 || !strings.Contains(errs.String(), "stopped before the start was complete") {
			t.Errorf("data folder %s: exit code %d, output %q, want %d and none:\n%s", folder, code, out.String(), command.ExitOK, errs.String())
		}
		server := startServing(t, dir) // the folder and the ports are free
		server.signal(syscall.SIGTERM)
		server.mustEndWell()
	}
}

// A closing terminal sends SIGHUP, and often twice: the server ends as with SIGTERM, and
// acknowledged values are restored.
func TestHangUpLosesNothing(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("skipped: SIGHUP is ignored here, as under nohup, and a server leaves it so")
	}
	dir := t.TempDir()
	s := startServing(t, dir, "--shutdown-delay=1ms")
	for i := range 200 {
		s.ask(http.MethodPut, s.at+depth, fmt.Sprint(i))
	}
	s.signal(syscall.SIGHUP)
	s.signal(syscall.SIGHUP)
	s.mustEndWell()
	again := startServing(t, dir)
	if got := again.ask(http.MethodGet, again.at+depth, ""); !strings.Contains(got, "199") {
		t.Errorf("after the terminal was closed the last value is not there: %s", got)
	}
	again.signal(syscall.SIGTERM)
	again.mustEndWell()
}

// A server started by nohup ignores SIGHUP.
func TestIgnoredHangUpStaysIgnored(t *testing.T) {
	t.Parallel()
	line := append([]string{"-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0]}, onFreePorts(t.TempDir())...)
	s := startServingBy(t, exec.Command("sh", line...))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	must(t, err)
	var ignored uint64
	_, mask, _ := strings.Cut(string(status), "\nSigIgn:")
	if _, err := fmt.Sscanf(mask, "%x", &ignored); err != nil || ignored&(1<<(syscall.SIGHUP-1)) == 0 {
		t.Errorf("the server ignores the signals %x (%v), want SIGHUP among them", ignored, err)
	}
	s.signal(syscall.SIGHUP)
	s.ask(http.MethodGet, s.ops+"/livez", "")
	s.signal(syscall.SIGTERM)
	s.mustEndWell()
}

// A reader of the log that goes away does not take the server with it.
func TestLogReaderMayGo(t *testing.T) {
	t.Parallel()
	s := startServing(t, t.TempDir())
	_ = s.stderr.Close()
	s.ask(http.MethodGet, s.ops+"/livez", "")
	s.signal(syscall.SIGTERM) // to which it logs "stopping", and then a part after the other ends
	s.mustEndWell()
}
