package restart

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// A data folder belongs to one process at a time: a second one exits with one line that says so,
// and leaves the first alone.
func TestSecondProcessIsTurnedAway(t *testing.T) {
	t.Parallel()
	first := server.New(t)
	first.Start()
	first.PutSynced("e2e", "depth", 7)

	out, err := exec.Command(first.Binary(), "serve", "--standalone", "--data-dir", first.DataDir(), "--statsd-udp", "127.0.0.1:0",
		"--statsd-tcp", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--api-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "in use") {
		t.Errorf("%v: %s: want exit code 1 and that the folder is in use", err, out)
	}
	if got := first.Sum("depth"); got != 7 {
		t.Errorf("the first server's depth is %v, want 7", got)
	}
	first.Stop()
}
