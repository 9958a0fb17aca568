package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kubectlTimeout exceeds every wait of kubectl itself.
const kubectlTimeout = patience + time.Minute

// Kubectl runs kubectl as the administrator and returns its standard output.
func (c *ControlPlane) Kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.TryKubectl(t, args...)
	must(t, err)
	return out
}

// TryKubectl is Kubectl for an expected failure. The returned error contains kubectl's standard
// error.
func (c *ControlPlane) TryKubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), kubectlTimeout) // cleanups may call it
	defer cancel()
	return c.runKubectl(exec.CommandContext(ctx, c.binaries.Kubectl, args...), "kubectl "+strings.Join(args, " "))
}

// Shell runs a command line that calls kubectl, as somebody would who copied it.
func (c *ControlPlane) Shell(t *testing.T, line string) {
	t.Helper()
	if _, err := c.TryShell(t, line); err != nil {
		t.Fatal(err)
	}
}

// TryShell is Shell for an expected failure. The error contains standard error.
func (c *ControlPlane) TryShell(t *testing.T, line string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kubectlTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `kubectl() { "$KUBECTL" "$@"; }`+"\n"+line)
	cmd.Env = []string{"KUBECTL=" + c.binaries.Kubectl}
	return c.runKubectl(cmd, line)
}

func (c *ControlPlane) runKubectl(cmd *exec.Cmd, line string) (string, error) {
	cmd.Env = append(append(os.Environ(), cmd.Env...), "KUBECONFIG="+c.Kubeconfig,
		"KUBECACHEDIR="+filepath.Join(c.folder, "kubectl"), "KUBECTL_KUBERC=false")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
