package client

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

// withDataFolder changes to a folder that has data/kubeconfig, as a cloned repository may, and to a home without one.
func withDataFolder(t *testing.T, kubeconfig string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	must(t, os.Mkdir("data", 0o700))
	must(t, os.WriteFile(filepath.Join("data", KubeconfigName), []byte(kubeconfig), 0o600))
}

// kubeconfigOf is a kubeconfig of a server, with a user.
func kubeconfigOf(server, user string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: %s}]}`, server, user)
}

// nowhere is a server on this machine that no test reaches.
const nowhere = "https://127.0.0.1:1"

// The current folder may be a stranger's: no command of its kubeconfig runs, not even for a completion.
func TestNoCommandOfTheDataFolderRuns(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	withDataFolder(t, kubeconfigOf(nowhere, fmt.Sprintf(
		`{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: [%q]}}`, ran)))
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, os.WriteFile(rules, []byte(`{apiVersion: sluice.dev/v1alpha1, kind: MetricRule,
metadata: {name: a, namespace: shop}, spec: {metric: m, let: {a: b}, value: a}}`), 0o600))
	for _, args := range [][]string{
		{"list"}, {"get", "external", "m"}, {"top"}, {"explain", "m"}, {"rule", "test", rules, "--of", "pods/*"},
		{"__complete", "list", "metrics", ""}, {"__complete", "explain", ""}, {"__complete", "get", "-n", ""},
		{"list", "--data-dir", "data"},
	} {
		code, _, errs := called(args...)
		if _, err := os.Stat(ran); err == nil {
			t.Fatalf("%v ran the command", args)
		}
		if args[0] != "__complete" && code != command.ExitFailed {
			t.Errorf("%v: exit code %d, %q: want %d", args, code, errs, command.ExitFailed)
		}
	}
}

// Without --data-dir, the kubeconfig of the data folder counts only if a standalone server may have written it.
func TestTheDataFolderOfAStandaloneServer(t *testing.T) {
	const anybody = "{token: anybody}"
	own := kubeconfigOf(nowhere, anybody)
	for name, c := range map[string]struct {
		text         string
		found, named bool // without, and with --data-dir
	}{
		"standalone":       {own, true, true},
		"of IPv6":          {kubeconfigOf("https://[::1]:6443", anybody), true, true},
		"of its namespace": {strings.Replace(own, "user: u}", "user: u, namespace: shop}", 1), true, true},
		"elsewhere":        {kubeconfigOf("https://10.0.0.1:6443", anybody), false, true},
		"a name":           {kubeconfigOf("https://localhost:6443", anybody), false, true},
		"by a proxy":       {strings.Replace(own, "server:", "proxy-url: 'http://10.0.0.1', server:", 1), false, true},
		"another token":    {kubeconfigOf(nowhere, "{token: secret}"), false, true},
		"a file's token":   {kubeconfigOf(nowhere, "{token: anybody, tokenFile: /etc/secret}"), false, true},
		"a certificate":    {kubeconfigOf(nowhere, "{token: anybody, client-certificate: a, client-key: b}"), false, true},
		"a command":        {kubeconfigOf(nowhere, "{token: anybody, exec: {command: a, apiVersion: v1}}"), false, false},
		"a provider":       {kubeconfigOf(nowhere, "{token: anybody, auth-provider: {name: oidc}}"), false, false},
		"empty":            {"", false, true},
		"no kubeconfig":    {"{", false, false},
	} {
		withDataFolder(t, c.text)
		_, err := (&apiOptions{dataDir: "data"}).load()
		if (err == nil) != c.found {
			t.Errorf("%s: %v, want it found: %t", name, err, c.found)
		}
		_, err = (&apiOptions{dataDir: "data", dataDirSet: true}).load()
		if (err == nil) != c.named {
			t.Errorf("%s, with --data-dir: %v, want it taken: %t", name, err, c.named)
		}
	}
}
