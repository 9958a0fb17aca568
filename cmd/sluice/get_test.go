package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestGetPath(t *testing.T) {
	for _, c := range []struct {
		q    asked
		want string
	}{
		{asked{namespace: "shop", what: "pods/*", metric: "m"}, customAPI + "/namespaces/shop/pods/%2A/m"},
		{asked{what: "deployments.apps/web", metric: "m:p95:10s"}, customAPI + "/namespaces/default/deployments.apps/web/m:p95:10s"},
		{asked{namespace: "x", what: "nodes/a", metric: "m"}, customAPI + "/nodes/a/m"},
		{asked{what: "namespaces/shop", metric: "m"}, customAPI + "/namespaces/shop/metrics/m"},
		{asked{namespace: "shop", what: "external", metric: "a/b", labels: "q=a,z!=1"}, externalAPI + `/namespaces/shop/a%5C%7Cb?labelSelector=q%3Da%2Cz%21%3D1`},
		{asked{what: "pods/*", metric: "m", labels: "a=b", objects: "app=web"}, customAPI + "/namespaces/default/pods/%2A/m?labelSelector=app%3Dweb&metricLabelSelector=a%3Db"},
	} {
		if got, err := c.q.path(); err != nil || got != c.want {
			t.Errorf("%+v: %s (%v), want %s", c.q, got, err, c.want)
		}
	}
	for _, q := range []asked{{what: "web", metric: "m"}, {what: "pods/", metric: "m"}, {what: "external"}, {what: "external", metric: "m", objects: "a=b"}} {
		if got, err := q.path(); err == nil {
			t.Errorf("%+v: %s, want an error", q, got)
		}
	}
}

func TestGetFaults(t *testing.T) {
	code, _, errs := called(t, "get", "pods", "--output", "xml", "--watch", "--interval", "1ms", "--server", "host", "--what")
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	wantLines(t, errs, "must be WHAT and METRIC", "--output", "--interval", "--server", "--what")
	for _, wait := range []string{"0", "-1s"} {
		code, _, errs := called(t, "get", "external", "m", "--timeout", wait)
		if code != exitUsage || !strings.Contains(errs, "--timeout is "+wait) {
			t.Errorf("--timeout %s: exit code %d, %q, want %d and the flag named", wait, code, errs, exitUsage)
		}
	}
}

func TestGetTellsTheAPIsMessage(t *testing.T) {
	p := started(t, t.TempDir())
	code, out, errs := called(t, "get", "--kubeconfig", p.kubeconfig, "external", "nobody_pushed")
	if code != exitFailed || out != "" || !strings.Contains(errs, `"nobody_pushed"`) || strings.Contains(errs, "{") {
		t.Errorf("exit code %d, %q %q: want %d and the message alone", code, out, errs, exitFailed)
	}
	code, _, errs = called(t, "get", "--kubeconfig", p.kubeconfig+"x", "external", "m")
	if code != exitFailed || !strings.Contains(errs, "--data-dir") {
		t.Errorf("exit code %d, %q: want %d and how to name a server", code, errs, exitFailed)
	}
}

func TestGetJSON(t *testing.T) {
	p := started(t, t.TempDir())
	if code, _, errs := called(t, "push", "--http", "http://"+p.push.Addr().String(), "--gauge", "depth", "5"); code != exitOK {
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
	if err := json.Unmarshal([]byte(out), &list); code != exitOK || err != nil || len(list.Items) != 1 || list.Items[0].Value != "5" {
		t.Errorf("exit code %d, %s%s (%v): want one item with value 5", code, out, errs, err)
	}
}

func TestTable(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	err := printTable(&b, []measured{
		{about: "pod/web-1", metric: "rps", value: "16667m", number: 16.667, window: time.Minute, at: now.Add(-2 * time.Second)},
		{about: "pod/web-2", metric: "rps", value: "12", number: 12, at: now.Add(-3 * time.Hour)},
	}, true, now)
	want := "OBJECT/LABELS   METRIC   VALUE    WINDOW   AGE   QUANTITY   TIMESTAMP\n" +
		"pod/web-1       rps      16.667   1m       -     16667m     2026-05-01T11:59:58Z\n" +
		"pod/web-2       rps      12       -        3h    12         2026-05-01T09:00:00Z\n"
	if err != nil || b.String() != want {
		t.Errorf("got (%v)\n%swant\n%s", err, b.String(), want)
	}
}

// What was pushed moves no cursor and makes no row: it is escaped wherever text is printed.
func TestTextIsVisible(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "queue=mail,ä=\u00a0😀": "queue=mail,ä=\u00a0😀", `a\b'"`: `a\b'"`, "\ufffd": "\ufffd",
		"a\nb\tc\rd\x00e": `a\nb\tc\rd\x00e`, "\x1b[2J\x7f": `\x1b[2J\x7f`, "\u0080\u009b1m\u009f": `\u0080\u009b1m\u009f`,
		"\xffa\xc2": `\xffa\xc2`, "\x9b31m": `\x9b31m`,
	} {
		if got := visible(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
	const evil = "q=\x1b[2J\u009b1m\xff\nforged\t"
	now := time.Now()
	values := []measured{{about: evil, metric: evil, value: "1", number: 1, at: now}}
	var h watched
	h.add(now, values, nil, 9)
	legend := h.draw(200, 24)
	h.add(now, nil, errors.New(evil), 9)
	for name, show := range map[string]func(io.Writer){
		"table":     func(out io.Writer) { _ = printTable(out, values, false, now) },
		"wide":      func(out io.Writer) { _ = printTable(out, values, true, now) },
		"rows":      func(out io.Writer) { rows(out)(now, values, nil) },
		"row fault": func(out io.Writer) { rows(out)(now, nil, errors.New(evil)) },
		"plot":      func(out io.Writer) { _, _ = io.WriteString(out, legend) },
		"fault":     func(out io.Writer) { _, _ = io.WriteString(out, h.draw(200, 24)) },
	} {
		var b strings.Builder
		show(&b)
		if got := b.String(); !strings.Contains(got, `q=\x1b[2J\u009b1m\xff\nforged\t`) || strings.Contains(got, "\x1b[2J") ||
			strings.Contains(got, "\u009b") || strings.Contains(got, "\xff") || strings.Contains(got, "\nforged") {
			t.Errorf("%s: %q, want it escaped", name, got)
		}
	}
}

// A watch whose first read fails ends with its error; one that fails later says so and goes on.
func TestWatchRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		var out bytes.Buffer
		err := watch(context.Background(), &out, time.Second, func(context.Context) ([]measured, error) { return nil, down })
		if !errors.Is(err, down) {
			t.Errorf("error %v, want %v", err, down)
		}

		ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer cancel()
		reads := 0
		err = watch(ctx, &out, time.Second, func(context.Context) ([]measured, error) {
			if reads++; reads == 2 {
				return nil, down
			}
			return []measured{{about: "pod/a", number: float64(reads)}}, nil
		})
		rows := strings.Split(strings.TrimSpace(out.String()), "\n")
		if err != nil || len(rows) != 4 || rows[0] != "TIME\tOBJECT/LABELS\tVALUE" || !strings.HasSuffix(rows[1], "pod/a\t1") ||
			!strings.HasSuffix(rows[2], "\t-\terror: connection refused") || !strings.HasSuffix(rows[3], "pod/a\t3") {
			t.Errorf("rows %q (%v): want a header, 1, an error, 3", rows, err)
		}
	})
}

// A watch that begins before the metric waits for it.
func TestWatchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer cancel()
		reads := 0
		get := func(context.Context) ([]byte, error) {
			switch reads++; reads {
			case 1:
				return nil, &refusal{http.StatusNotFound, "no such metric"}
			case 2:
				return nil, &unreachable{"nobody listens", nil}
			}
			return []byte("{\n \"items\": []\n}"), nil
		}
		var out, errs strings.Builder
		if err := watchJSON(ctx, &out, &errs, time.Second, get); err != nil {
			t.Fatal(err)
		}
		if out.String() != "{\"items\":[]}\n" {
			t.Errorf("output %q: want one line of JSON for the one answer", out.String())
		}
		if s := errs.String(); !strings.Contains(s, "\tabsent: no such metric\n") || !strings.Contains(s, "\tunreachable: nobody listens\n") {
			t.Errorf("errors %q: want absent, then unreachable", s)
		}
	})
}

func TestPlainNumbers(t *testing.T) {
	for _, c := range []struct {
		value  string
		number float64
		want   string
	}{
		{"9007199254740993", 9007199254740993, "9007199254740993"}, {"12k", 12000, "12000"}, {"0", 0, "0"},
		{"16666667m", 16666.667, "16666.7"}, {"1234567891m", 1234567.891, "1234568"}, {"100m", 0.1, "0.1"},
		{"-33333m", -33.333, "-33.333"}, {"1m", 0.001, "0.001"}, {"123456n", 0.000123456789, "0.000123457"},
	} {
		if got := (measured{value: c.value, number: c.number}).print(); got != c.want {
			t.Errorf("%s is printed as %s, want %s", c.value, got, c.want)
		}
	}
}

func TestGetNamesABadSelectorAndAnIdleInterval(t *testing.T) {
	code, _, errs := called(t, "get", "pods/*", "m", "-l", "a=b=c", "--selector", "!", "--interval", "1s")
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	wantLines(t, errs, `--labels is "a=b=c"; must be a selector`, `--selector is "!"; must be a selector`, "--interval is set without --watch")
}

// The kubeconfig is --kubeconfig's, the data folder's, or $KUBECONFIG's, and the error says where
// it was looked for.
func TestGetFindsAKubeconfig(t *testing.T) {
	p := started(t, t.TempDir())
	t.Chdir(t.TempDir())
	t.Setenv("KUBECONFIG", "")
	if code, _, errs := called(t, "get", "external", "m"); code != exitFailed || !strings.Contains(errs, "data/kubeconfig does not exist, and $KUBECONFIG is empty") {
		t.Errorf("exit code %d, %q: want %d and both places", code, errs, exitFailed)
	}
	t.Setenv("KUBECONFIG", "missing")
	if code, _, errs := called(t, "get", "external", "m"); code != exitFailed || !strings.Contains(errs, "data/kubeconfig does not exist, nor does $KUBECONFIG (missing)") {
		t.Errorf("exit code %d, %q: want %d and both places", code, errs, exitFailed)
	}
	t.Setenv("KUBECONFIG", "missing"+string(filepath.ListSeparator)+p.kubeconfig)
	if _, _, errs := called(t, "get", "external", "nobody_pushed"); !strings.Contains(errs, `"nobody_pushed"`) {
		t.Errorf("%q: want the answer of the API in $KUBECONFIG", errs)
	}
	if _, _, errs := called(t, "get", "--data-dir", "elsewhere", "external", "m"); !strings.Contains(errs, "--data-dir elsewhere has no kubeconfig") {
		t.Errorf("%q: want that the folder that was named has none", errs)
	}
}

// A folder that cannot be looked into is not one that holds no kubeconfig. (A loop of links stands
// for another user's folder: root may look into every other.)
func TestGetSaysThatItMayNotLook(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Symlink("data", "data"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args      []string
		inherited string
		want      string
	}{
		{[]string{"--data-dir", "data"}, "missing", "--data-dir data: cannot look for a kubeconfig: too many levels of symbolic links"},
		{nil, "", "--data-dir data: cannot look for a kubeconfig"},
		{nil, "missing", "nor does $KUBECONFIG (missing)"},
		{[]string{"--kubeconfig", "data/kubeconfig"}, "", "--kubeconfig data/kubeconfig: too many levels"},
	} {
		t.Setenv("KUBECONFIG", c.inherited)
		code, _, errs := called(t, append([]string{"get", "external", "m"}, c.args...)...)
		if code != exitFailed || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %q: want %d and %q", c.args, code, errs, exitFailed, c.want)
		}
	}
}

// Who gives no answer is told in words, whatever stands behind the port.
func TestNoAnswer(t *testing.T) {
	p := started(t, t.TempDir())
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
		{append(push("http://"+statsd), "--timeout", "200ms"), "http://" + statsd + " "},
	} {
		code, _, errs := called(t, c.args...)
		if code != exitFailed || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %q: want %d and %q", c.args, code, errs, exitFailed, c.want)
		}
	}
}
