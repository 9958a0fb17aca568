package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the control plane that the tests of a package share: a start takes seconds, and
// namespaces separate tests well enough.
var shared struct {
	sync.Mutex
	asked bool
	plane *ControlPlane
	err   error
}

// Main runs a package's tests, then the cleanups, and then stops the shared control plane, if it
// was started. A TestMain reads:
//
//	func TestMain(m *testing.M) { controlplane.Main(m) }
func Main(m *testing.M, cleanups ...func()) {
	code := m.Run()
	for _, cleanup := range cleanups {
		cleanup()
	}
	if err := stopShared(); err != nil {
		println(err.Error())
		code = max(code, 1)
	}
	os.Exit(code)
}

// Shared returns the package's control plane, with the default configuration. The first call waits
// for the start.
func Shared(t *testing.T) *ControlPlane {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.asked {
		shared.asked = true
		shared.plane, shared.err = Start(context.Background(), DefaultConfig())
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	shared.plane.watch(t)
	return shared.plane
}

func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.plane == nil {
		return nil
	}
	return shared.plane.Stop()
}

// New starts a control plane for one test that would disturb other tests.
func New(t *testing.T, cfg Config) *ControlPlane {
	t.Helper()
	c, err := Start(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	c.watch(t)
	return c
}

// watch fails a test during which a process ended, and prints the logs if a test failed. It prints
// them at once, so that the failure stands below the logs, at the end.
func (c *ControlPlane) watch(t *testing.T) {
	t.Cleanup(func() {
		if err := c.ended(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			fmt.Fprintf(os.Stderr, "%s: the control plane's logs end with\n%s", t.Name(), c.logTails())
		}
	})
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
