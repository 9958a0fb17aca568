package receiver

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// A server that stops leaves a socket that another process has put in the place of its own.
func TestAStopRemovesOnlyItsOwnSocket(t *testing.T) {
	for _, listener := range []Listener{unixStream(t), {Network: "unixgram", Address: socketPath(t)}} {
		for _, replaced := range []bool{true, false} {
			f := serve(t, testConfig(listener))
			if replaced {
				if err := os.Remove(listener.Address); err != nil {
					t.Fatal(err)
				}
				other, err := net.Listen("unix", listener.Address)
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
			}
			f.stop()
			if _, err := os.Lstat(listener.Address); (err == nil) != replaced {
				t.Errorf("%s, replaced %v: %v", listener.Network, replaced, err)
			}
			_ = os.Remove(listener.Address)
		}
	}
}

// Another process may replace the socket before its mode is set: what a link leads to keeps its mode.
func TestTheModeOfALinkedFileIsKept(t *testing.T) {
	secret, link := filepath.Join(t.TempDir(), "secret"), socketPath(t)
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	if file, err := claim(link); err == nil || file.made != nil {
		t.Errorf("%+v, %v; want an error", file, err)
	}
	if chmodSocket(link) == nil {
		t.Error("the mode of a link was set")
	}
	if stat, err := os.Stat(secret); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", stat, err)
	}
}

// A socket takes the place of one on which another process listens: that keeps its clients, and removes nothing when
// it ends. Where something else has the path, it is an error.
func TestASocketTakesOver(t *testing.T) {
	for _, network := range []string{"unixgram", "unix"} {
		listener := Listener{Network: network, Address: socketPath(t), TakesOver: true}
		former := serve(t, testConfig(listener))
		old := former.dial(0)
		next := serve(t, testConfig(listener))
		former.send(old, "jobs:1|c\n")
		next.send(next.dial(0), "jobs:2|c\n")
		former.eventually("the line of the former client", func() bool { return former.recorder.sum("jobs") == 1 })
		next.eventually("the line of the next one", func() bool { return next.recorder.sum("jobs") == 2 })
		former.stop()
		if _, err := old.Write([]byte("jobs:1|c\n")); err == nil {
			t.Errorf("%s: a client of a socket that has ended hears of no error", network)
		}
		next.send(next.dial(0), "jobs:2|c\n")
		next.eventually("a line after the former's end", func() bool { return next.recorder.sum("jobs") == 4 })
		next.stop()
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(listener.Address), "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: left are %q, %v", network, left, err)
		}
		if err := os.WriteFile(listener.Address, []byte("file"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(testConfig(listener), Parts{Ledger: ledger.New(), Logger: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%s: a socket takes the place of a file", network)
		}
	}
}
