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
const kubectlTimeout = 2 * time.Minute

// Kubectl runs kubectl as the administrator and returns its standard output.
func (c *ControlPlane) Kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.TryKubectl(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryKubectl is Kubectl for an expected failure. The returned error contains kubectl's standard
// error.
func (c *ControlPlane) TryKubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), kubectlTimeout) // cleanups may call it
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binaries.Kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "KUBECACHEDIR="+filepath.Join(c.folder, "kubectl"), "KUBECTL_KUBERC=false")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
