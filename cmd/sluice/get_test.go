package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
)

func TestGetFaults(t *testing.T) {
	code, _, errs := called(t, "get", "pods", "--output", "xml", "--watch", "--interval", "1ms", "--server", "host", "--what")
	if code != command.ExitUsage {
		t.Errorf("exit code %d, want %d", code, command.ExitUsage)
	}
	commandtest.WantLines(t, errs, "must be WHAT and METRIC", "--output", "--interval", "--server", "--what")
	for _, wait := range []string{"0", "-1s"} {
		code, _, errs := called(t, "get", "external", "m", "--timeout", wait)
		if code != command.ExitUsage || !strings.Contains(errs, "--timeout is "+wait) {
			t.Errorf("--timeout %s: exit code %d, %q, want %d and the flag named", wait, code, errs, command.ExitUsage)
		}
	}
}

func TestGetTellsTheAPIsMessage(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	code, out, errs := called(t, "get", "--kubeconfig", p.kubeconfig, "external", "nobody_pushed")
	if code != command.ExitFailed || out != "" || !strings.Contains(errs, `"nobody_pushed"`) || strings.Contains(errs, "{") {
		t.Errorf("exit code %d, %q %q: want %d and the message alone", code, out, errs, command.ExitFailed)
	}
	code, _, errs = called(t, "get", "--kubeconfig", p.kubeconfig+"x", "external", "m")
	if code != command.ExitFailed || !strings.Contains(errs, "--data-dir") {
		t.Errorf("exit code %d, %q: want %d and how to name a server", code, errs, command.ExitFailed)
	}
}

// A metric that nobody pushes has the nearest name behind its error, and one that expired says when; explain
// says the same. The tables of get and list say which stat a value is.
func TestGetSuggestsAMetric(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	accepted(t, p, "PUT", "/v1/namespaces/shop/external/gone?ttl=1s", "1")
	accepted(t, p, "PUT", "/v1/namespaces/shop/external/queue_depth", "1")
	accepted(t, p, "POST", "/v1/namespaces/shop/pods/web-1/requests?type=counter", "1")
	for _, what := range [][]string{{"get", "external", "gone"}, {"explain", "gone"}} {
		says := ""
		eventually(t, func() bool {
			_, out, errs := called(t, append(what, "--kubeconfig", p.kubeconfig, "-n", "shop")...)
			says = out + errs
			return regexp.MustCompile(`last seen \d+s ago, expired after 1s`).MatchString(says)
		}, func() string { return says })
	}
	for _, c := range []struct{ args, want string }{
		{"external queue_dept:last", `none was ever received; did you mean "queue_depth"?`},
		{"pods/* reqests", `did you mean "requests"?`},
		{"external queue_depth -o wide", " last "},
		{"pods/* requests -o wide", " rate "},
	} {
		_, out, errs := called(t, append([]string{"get", "--kubeconfig", p.kubeconfig, "-n", "shop"}, strings.Fields(c.args)...)...)
		if !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: no %q in %s%s", c.args, c.want, out, errs)
		}
	}
	_, out, errs := called(t, "list", "--kubeconfig", p.kubeconfig, "-n", "shop", "-o", "wide")
	for _, want := range []string{"1 last", "rate:1m"} {
		if !strings.Contains(out, want) {
			t.Errorf("list -o wide has no %q: %s%s", want, out, errs)
		}
	}
}

func TestGetJSON(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	if code, _, errs := called(t, "push", "--http", "http://"+p.push.Addr().String(), "--gauge", "depth", "5"); code != command.ExitOK {
		t.Fatal(errs)
	}
	// By address alone, as against a server on another machine.
	code, out, errs := called(t, "get", "--kubeconfig", "none", "--server", "https://"+p.api.Addr().String(), "--insecure-skip-tls-verify",
		"external", "depth", "-o=json")
	var list struct {
		Kind  string `json:"kind"`
		Items []struct {
			Value string `json:"value"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(out), &list); code != command.ExitOK || err != nil || len(list.Items) != 1 || list.Items[0].Value != "5" {
		t.Errorf("exit code %d, %s%s (%v): want one item with value 5", code, out, errs, err)
	}
}

func TestGetNamesABadSelectorAndAnIdleInterval(t *testing.T) {
	code, _, errs := called(t, "get", "pods/*", "m", "-l", "a=b=c", "--selector", "!", "--interval", "1s")
	if code != command.ExitUsage {
		t.Errorf("exit code %d, want %d", code, command.ExitUsage)
	}
	commandtest.WantLines(t, errs, `--labels is "a=b=c"; must be a selector`, `--selector is "!"; must be a selector`, "--interval is set without --watch")
}

// The kubeconfig is --kubeconfig's, the data folder's, or $KUBECONFIG's, and the error says where
// it was looked for.
func TestGetFindsAKubeconfig(t *testing.T) {
	p := started(t, t.TempDir())
	t.Chdir(t.TempDir())
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	if code, _, errs := called(t, "get", "external", "m"); code != command.ExitFailed || !strings.Contains(errs, "--data-dir data has no kubeconfig; ~/.kube/config does not exist, and $KUBECONFIG is empty") {
		t.Errorf("exit code %d, %q: want %d and both places", code, errs, command.ExitFailed)
	}
	t.Setenv("KUBECONFIG", "missing")
	if code, _, errs := called(t, "get", "external", "m"); code != command.ExitFailed || !strings.Contains(errs, "--data-dir data has no kubeconfig; $KUBECONFIG (missing) does not exist") {
		t.Errorf("exit code %d, %q: want %d and both places", code, errs, command.ExitFailed)
	}
	t.Setenv("KUBECONFIG", "missing"+string(filepath.ListSeparator)+p.kubeconfig)
	if _, _, errs := called(t, "get", "external", "nobody_pushed"); !strings.Contains(errs, `"nobody_pushed"`) {
		t.Errorf("%q: want the answer of the API in $KUBECONFIG", errs)
	}
	t.Setenv("KUBECONFIG", "")
	must(t, os.Mkdir(filepath.Join(home, ".kube"), 0o700))
	must(t, os.Symlink(p.kubeconfig, filepath.Join(home, ".kube", "config")))
	for _, args := range [][]string{{"get", "external", "nobody_pushed"}, {"explain", "nobody_pushed"}} {
		if _, _, errs := called(t, args...); !strings.Contains(errs, "nobody_pushed") {
			t.Errorf("%v: %q: want the answer of the API in ~/.kube/config", args, errs)
		}
	}
	if code, _, errs := called(t, "list"); code != command.ExitOK {
		t.Errorf("list: %q: want the answer of the API in ~/.kube/config", errs)
	}
	if _, _, errs := called(t, "get", "--data-dir", "elsewhere", "external", "m"); !strings.Contains(errs, "--data-dir elsewhere has no kubeconfig") {
		t.Errorf("%q: want that the folder that was named has none", errs)
	}
}

// A folder that cannot be looked into is not one that holds no kubeconfig. (A loop of links stands
// for another user's folder: root may look into every other.)
func TestGetSaysThatItMayNotLook(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.Symlink("data", "data"))
	t.Setenv("HOME", t.TempDir())
	for _, c := range []struct {
		args      []string
		inherited string
		want      string
	}{
		{[]string{"--data-dir", "data"}, "missing", "--data-dir data: cannot look for a kubeconfig: too many levels of symbolic links"},
		{nil, "", "--data-dir data: cannot look for a kubeconfig"},
		{nil, "missing", "$KUBECONFIG (missing) does not exist"},
		{[]string{"--kubeconfig", "data/kubeconfig"}, "", "--kubeconfig data/kubeconfig: too many levels"},
	} {
		t.Setenv("KUBECONFIG", c.inherited)
		code, _, errs := called(t, append([]string{"get", "external", "m"}, c.args...)...)
		if code != command.ExitFailed || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %q: want %d and %q", c.args, code, errs, command.ExitFailed, c.want)
		}
	}
}

// With a kubeconfig of a cluster, the API server is what could not be reached, and not Sluice.
func TestNoAnswerOfACluster(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_ = gone.Close()
	kubeconfig := fileOf(t, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"https://"+gone.Addr().String()+"\"}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	want := "nothing listens on https://" + gone.Addr().String() + ", the API server in the kubeconfig: is its cluster running, and is this the right context?"
	for _, args := range [][]string{{"get", "external", "m"}, {"list"}, {"explain", "m", "-n", "shop"}} {
		code, _, errs := called(t, append(args, "--kubeconfig", kubeconfig)...)
		if code != command.ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %q: want %d and %q", args, code, errs, command.ExitFailed, want)
		}
	}
}

// A server without an answer is reported in words, whatever listens on the port.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_ = gone.Close()
	http, api, statsd, nobody := p.push.Addr().String(), p.api.Addr().String(), p.statsd.Addrs()[1].String(), gone.Addr().String()
	get := func(server string) []string {
		return []string{"get", "--server", "https://" + server, "--insecure-skip-tls-verify", "external", "m"}
	}
	push := func(server string) []string { return []string{"push", "--http", server, "--gauge", "m", "1"} }
	for _, c := range []struct {
		args []string
		want string
	}{
		{get(nobody), "nothing listens on https://" + nobody + ": is `sluice serve` running?"},
		{get(http), "https://" + http + " does not speak TLS; must be the port of --api-address"},
		{push("http://" + nobody), "nothing listens on http://" + nobody + ": is `sluice serve` running?"},
		{push("http://" + api), "http://" + api + " is not Sluice's port for HTTP push (--http-address)"},
		{push("https://" + http), "https://" + http + " does not speak TLS; must be the port of --http-address"},
		{push("http://" + statsd), "the client speaks HTTP; this is the StatsD port"},
	} {
		code, _, errs := called(t, c.args...)
		if code != command.ExitFailed || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %q: want %d and %q", c.args, code, errs, command.ExitFailed, c.want)
		}
	}
}
