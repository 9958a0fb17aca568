package controlplane

import (
	"context"
	"slices"
	"syscall"
	"testing"
)

const apiServerName = "kube-apiserver"

// KillAPIServer kills the API server. The other processes keep running.
func (c *ControlPlane) KillAPIServer(t *testing.T) {
	t.Helper()
	i := c.apiServer(t)
	gone := c.processes[i]
	c.processes = slices.Delete(c.processes, i, i+1)
	gone.Kill()
}

// StartAPIServer starts the API server again and returns when it is ready.
func (c *ControlPlane) StartAPIServer(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.cfg.StartTimeout)
	defer cancel()
	must(t, c.startAPIServer(ctx))
}

// FreezeAPIServer stops the API server's process for a while, like a machine that hangs:
// connections stay open and silent.
func (c *ControlPlane) FreezeAPIServer(t *testing.T, during func()) {
	t.Helper()
	frozen := c.processes[c.apiServer(t)]
	must(t, frozen.Signal(syscall.SIGSTOP))
	defer func() {
		if err := frozen.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	during()
}

func (c *ControlPlane) apiServer(t *testing.T) int {
	t.Helper()
	i := slices.IndexFunc(c.processes, func(p process) bool { return p.name == apiServerName })
	if i < 0 {
		t.Fatal("no kube-apiserver runs")
	}
	return i
}
