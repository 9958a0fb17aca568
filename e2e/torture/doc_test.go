// Package torture does to the real binary what production does to it: kills, power cuts, clock
// steps, full and broken disks, damaged files, floods, bombs, slow clients and more datagrams than
// it can read.
//
// Each file is one family of faults, and each test prints one line with its figure ("figure: …");
// docs/reliability.md lists them with what is promised. A test judges the books (what was
// acknowledged, sent, received and applied), never how long something took: it holds on a slow
// machine too.
//
// The short form is the default. TORTURE=long does the same more often and in larger sizes. The
// tests run one after the other, for most of them need the machine.
package torture

import (
	"fmt"
	"os"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Remove()
	os.Exit(code)
}

// figure prints the result of a test, for the table of docs/reliability.md.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("figure: "+format, args...)
}

// needRoot skips a test that only root may run.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: this fault needs root (loop devices and mounts)")
	}
}

// must ends the test on an error that is not its subject.
func must(t *testing.T, err error, doing string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Errorf(doing+": %w", append(args, err)...))
	}
}
