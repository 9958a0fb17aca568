package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

func TestGetPath(t *testing.T) {
	for _, c := range []struct {
		q    asked
		want string
	}{
		{asked{namespace: "shop", what: "pods/*", metric: "m"}, CustomAPI + "/namespaces/shop/pods/%2A/m"},
		{asked{what: "deployments.apps/web", metric: "m:p95:10s"}, CustomAPI + "/namespaces/default/deployments.apps/web/m:p95:10s"},
		{asked{namespace: "x", what: "nodes/a", metric: "m"}, CustomAPI + "/nodes/a/m"},
		{asked{what: "namespaces/shop", metric: "m"}, CustomAPI + "/namespaces/shop/metrics/m"},
		{asked{namespace: "shop", what: "external", metric: "a/b", labels: "q=a,z!=1"}, ExternalAPI + `/namespaces/shop/a%5C%7Cb?labelSelector=q%3Da%2Cz%21%3D1`},
		{asked{what: "pods/*", metric: "m", labels: "a=b", objects: "app=web"}, CustomAPI + "/namespaces/default/pods/%2A/m?labelSelector=app%3Dweb&metricLabelSelector=a%3Db"},
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

func TestTable(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	err := (&getOptions{}).printTable(&b, []measured{
		{about: "pod/web-1", metric: "rps", value: "16667m", number: 16.667, window: time.Minute, at: now.Add(-2 * time.Second)},
		{about: "pod/web-2", metric: "rps", value: "12", number: 12, at: now.Add(-3 * time.Hour)},
	}, "rate", now)
	want := "OBJECT/LABELS   METRIC   VALUE    WINDOW   AGE   STAT   QUANTITY   TIMESTAMP\n" +
		"pod/web-1       rps      16.667   1m       -     rate   16667m     2026-05-01T11:59:58Z\n" +
		"pod/web-2       rps      12       -        3h    rate   12         2026-05-01T09:00:00Z\n"
	if err != nil || b.String() != want {
		t.Errorf("got (%v)\n%swant\n%s", err, b.String(), want)
	}
}

// Pushed text moves no cursor and makes no row: it is escaped wherever text is printed.
func TestTextIsVisible(t *testing.T) {
	const evil = "q=\x1b[2J\u009b1m\xff\nforged\t"
	now := time.Now()
	values := []measured{{about: evil, metric: evil, value: "1", number: 1, at: now}}
	var h watched
	h.add(now, values, nil, 9)
	legend := h.draw(200, 24)
	h.add(now, nil, errors.New(evil), 9)
	for name, show := range map[string]func(io.Writer){
		"table":     func(out io.Writer) { _ = (&getOptions{}).printTable(out, values, "", now) },
		"wide":      func(out io.Writer) { _ = (&getOptions{}).printTable(out, values, "last", now) },
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
		if err != nil || len(rows) != 4 || rows[0] != "TIME       OBJECT/LABELS   VALUE" || rows[1] != "00:00:00   pod/a           1" ||
			rows[2] != "00:00:01   -               error: connection refused" || rows[3] != "00:00:02   pod/a           3" {
			t.Errorf("rows %q (%v): want an aligned header, 1, an error, 3", rows, err)
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
				return nil, &refusal{code: http.StatusNotFound, message: "no such metric"}
			case 2:
				return nil, &unreachable{"nobody listens", nil}
			}
			return []byte("{\n \"items\": []\n}"), nil
		}
		var out, errs strings.Builder
		must(t, watchJSON(ctx, &out, &errs, time.Second, get))
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

// The namespace is the context's, as kubectl and the other commands have it.
func TestReadersUseTheContextsNamespace(t *testing.T) {
	paths := ""
	file := answering(t, func(w http.ResponseWriter, r *http.Request) {
		paths += r.URL.Path + "\n"
		fmt.Fprint(w, `{"items":[]}`)
	})
	cluster := filepath.Join(t.TempDir(), "rules.yaml")
	rule := "apiVersion: sluice.dev/v1alpha1\nkind: ClusterMetricRule\nmetadata: {name: a}\nspec: {metric: a, let: {m: m}, value: m}\n"
	must(t, os.WriteFile(cluster, []byte(rule), 0o600))
	for args, want := range map[string]string{
		"get external m":                             ExternalAPI + "/namespaces/team/m",
		"get pods/* m":                               CustomAPI + "/namespaces/team/pods/*/m",
		"get nodes/a m":                              CustomAPI + "/nodes/a/m",
		"get -n shop external m":                     ExternalAPI + "/namespaces/shop/m",
		"get --context b external m":                 ExternalAPI + "/namespaces/default/m",
		"rule test --of external " + cluster:         ExternalAPI + "/namespaces/team/m",
		"rule test -n shop --of external " + cluster: ExternalAPI + "/namespaces/shop/m",
	} {
		paths = ""
		called(append(strings.Fields(args), "--kubeconfig", file)...)
		if paths != want+"\n" {
			t.Errorf("%s asks %q, want %s", args, paths, want)
		}
	}
}

// A redirect is not followed: its target would get the kubeconfig's token.
func TestReadersFollowNoRedirect(t *testing.T) {
	asked, elsewhere := 0, 0
	file := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Path == "/elsewhere" {
			elsewhere++
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	for _, args := range []string{"get external m", "list metrics", "explain m", "explain hpa/a"} {
		asked = 0
		if code, _, errs := called(append(strings.Fields(args), "--kubeconfig", file)...); code == 0 || !strings.Contains(errs, "302 Found") {
			t.Errorf("%s: %d, %s", args, code, errs)
		}
		if asked == 0 || elsewhere > 0 {
			t.Errorf("%s asks %d times, and elsewhere %d times", args, asked, elsewhere)
		}
	}
}

func TestGetSaysWhichRightIsMissing(t *testing.T) {
	message := ""
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","message":%q}`, message)
	})
	for text, want := range map[string]string{
		`m.external.metrics.k8s.io is forbidden: User "jane" cannot list resource "m" in API group "external.metrics.k8s.io" in the namespace "shop"`: "to allow it: kubectl create rolebinding metrics-reader -n shop --clusterrole=sluice-reader --user=jane\n",
		`nodes is forbidden: User "system:serviceaccount:ops:robot" cannot get resource "nodes/m" at the cluster scope`:                               "to allow it: kubectl create clusterrolebinding metrics-reader --clusterrole=sluice-reader --serviceaccount=ops:robot\n",
		`the external metric "m" is denied by rules[0] of externalmetricpolicy/guard`:                                                                 "externalmetricpolicy/guard\n",
	} {
		message = text
		if code, _, errs := called("get", "--kubeconfig", file, "external", "m"); code != command.ExitFailed || !strings.HasSuffix(errs, want) || !strings.Contains(errs, text) {
			t.Errorf("exit code %d: %s; want %s", code, errs, want)
		}
	}
}
