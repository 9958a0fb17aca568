package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listsWhatIsThere: "sluice list" and "kubectl get" show metrics, objects, senders, rejections,
// limits and autoscalers, with the rights of their user.
func listsWhatIsThere(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "lists")
	one := c.pod(t, ns, "one", "default")
	address := addressOf(t, one)
	for i := range 6 {
		c.sendFrom(t, address, fmt.Sprintf("m%d:1|g", i))
		if i < 5 {
			c.wantValues(t, fmt.Sprintf("/namespaces/%s/pods/*/m%d", ns, i), map[string]float64{"one": 1})
		}
	}
	c.sendFrom(t, address, "depth:x|g")

	admin := lister{c, c.Kubeconfig, c.sluice.Binary()}
	for what, want := range map[string][]string{
		"metrics": {"m0 pods gauge 1 1", "m4 pods gauge 1 1"},
		"objects": {"pods/one 5 5"},
		"senders": {"one pod 5"},
		"refused": {"m5 one limit 1", "depth one malformed 1"},
		"limits":  {"pods/one 5/5 5/100 1 default"},
	} {
		within(t, func() error { return admin.shows(0, want, "list", what, "-n", ns) })
	}
	must(t, admin.shows(0, []string{ns + " m0 pods gauge"}, "list", "-A"))

	for args, want := range map[string]string{
		"get metrics.inspect.sluice.dev":                                                    "m0 pods gauge 1 1",
		"get limituses.inspect.sluice.dev":                                                  "pods/one 5/5",
		"get metrics.inspect.sluice.dev m3":                                                 "m3 pods gauge 1 1",
		"get --raw /apis/inspect.sluice.dev/v1alpha1/namespaces/" + ns + "/metrics?limit=1": `"kind":"MetricList"`,
	} {
		all := strings.Fields(args)
		if !strings.Contains(args, "--raw") {
			all = append(all, "-n", ns)
		}
		if out := squeezed(c.Kubectl(t, all...)); !strings.Contains(out, want) {
			t.Errorf("kubectl %s:\n%s, want %q", args, out, want)
		}
	}

	for _, short := range []string{"limits", "hpa", "quota"} { // kubectl's short names still mean Kubernetes' own
		if out := c.Kubectl(t, "get", short, "-n", ns, "-o", "json"); strings.Contains(out, "sluice") {
			t.Errorf("kubectl get %s lists Sluice's: %s", short, out)
		}
	}
	c.listsWithTheirRights(t, ns)
	c.listsAMissingMetric(t, ns, admin)
}

// listsWithTheirRights: a user without the right is told which binding mends it, and the binding
// does.
func (c *cluster) listsWithTheirRights(t *testing.T, ns string) {
	c.Kubectl(t, "create", "serviceaccount", "reader", "-n", ns)
	plugin := filepath.Join(t.TempDir(), "kubectl-sluice")
	must(t, os.Symlink(c.sluice.Binary(), plugin))
	reader := lister{c, c.ServiceAccountKubeconfig(t, ns, "reader"), plugin}
	const command = "to allow it: kubectl "
	_, said, err := reader.run("list", "metrics", "-n", ns)
	_, remedy, told := strings.Cut(said, command)
	if err == nil || !told || !strings.Contains(said, "forbidden") {
		t.Fatalf("without a right: %v\n%s, want %q", err, said, command)
	}
	remedy, _, _ = strings.Cut(remedy, "\n")
	c.Kubectl(t, strings.Fields(remedy)...)
	// The API server's and Sluice's decisions are cached for seconds.
	within(t, func() error { return reader.shows(0, []string{"m0 pods gauge"}, "list", "metrics") })
	if _, said, err := reader.run("list", "metrics", "-A"); err == nil || !strings.Contains(said, "clusterrolebinding") {
		t.Errorf("all namespaces, with the right to one: %v\n%s", err, said)
	}
	if _, said, err := reader.run("list", "metrics", "-n", "kube-system"); err == nil {
		t.Errorf("another namespace: %s", said)
	}
}

// listsAMissingMetric: an autoscaler whose metric nobody pushes makes the exit code 1.
func (c *cluster) listsAMissingMetric(t *testing.T, ns string, admin lister) {
	c.Apply(t, ns, example(t, "hpa-pods.yaml", ns))
	within(t, func() error {
		return admin.shows(1, []string{"web deployment/web http_requests", "missing"}, "list", "hpas", "-n", ns)
	})
	must(t, admin.shows(0, []string{ns + "/web", "http_requests:rate:10s missing", "metric missing"}, "top", "-n", ns))
	pod := c.AwaitPods(t, ns, "app=web", 1)[0]
	c.awaitSender(t, ns, pod.Name)
	within(t, func() error {
		c.sendFrom(t, addressOf(t, pod), "http_requests:5|c")
		return admin.shows(0, []string{"web deployment/web http_requests"}, "list", "hpas", "-n", ns)
	})
	must(t, admin.shows(0, []string{"http_requests pods counter 1 1"}, "list", "metrics", "-n", ns))
	within(t, func() error {
		return admin.shows(0, []string{"http_requests:rate:10s 0", "·"}, "top", "-n", ns)
	})
}

// lister runs the binary as a user.
type lister struct {
	*cluster
	kubeconfig, binary string
}

func (l lister) run(args ...string) (out, said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.binary, append(args, "--kubeconfig", l.kubeconfig)...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// shows checks the exit code, and that the output has some text, whatever its columns' widths.
func (l lister) shows(code int, want []string, args ...string) error {
	out, said, err := l.run(args...)
	got := 0
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		got = failed.ExitCode()
	} else if err != nil {
		return err
	}
	text := squeezed(out)
	for _, part := range want {
		if !strings.Contains(text, part) || got != code {
			return fmt.Errorf("sluice %s: exit code %d, want %d with %q\n%s%s", strings.Join(args, " "), got, code, part, out, said)
		}
	}
	return nil
}

// squeezed replaces runs of spaces by one.
func squeezed(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}
