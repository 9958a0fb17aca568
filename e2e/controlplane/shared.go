package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the control plane that the tests of a package have in common: a start takes seconds,
// and namespaces keep tests apart well enough.
var shared struct {
	sync.Mutex
	asked bool
	plane *ControlPlane
	err   error
}

// Main runs a package's tests and then stops what Shared started, if it did. A TestMain is
//
//	func TestMain(m *testing.M) { controlplane.Main(m) }
//
// and cleanups are what else is to be done before the process ends.
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

// Shared is the package's control plane, with defaults. The first caller waits for its start.
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

// New is a control plane of the test's own, for what would disturb others.
func New(t *testing.T, cfg Config) *ControlPlane {
	t.Helper()
	c, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	c.watch(t)
	return c
}

// watch fails a test during which a process ended, and shows a failed one's reader the logs: at
// once, so that what failed stands below them, at the end.
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
