package receiver

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A server that stops leaves a socket that another process has put in the place of its own.
func TestAStopRemovesOnlyItsOwnSocket(t *testing.T) {
	for _, listener := range []Listener{unixStream(t), {Network: "unixgram", Address: socketPath(t)}} {
		for _, replaced := range []bool{true, false} {
			f := serve(t, testConfig(listener))
			if replaced {
				must(t, os.Remove(listener.Address))
				other, err := net.Listen("unix", listener.Address)
				must(t, err)
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
	must(t, os.WriteFile(secret, nil, 0o600))
	must(t, os.Symlink(secret, link))
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
