package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	wantLines(t, errs, "want WHAT and METRIC", "--output", "--interval", "--server", "--what")
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
		"pod/web-1       rps      16.667   1m       2s    16667m     2026-05-01T11:59:58Z\n" +
		"pod/web-2       rps      12       -        3h    12         2026-05-01T09:00:00Z\n"
	if err != nil || b.String() != want {
		t.Errorf("got (%v)\n%swant\n%s", err, b.String(), want)
	}
}

// A watch whose first read fails ends with its error; one that fails later says so and goes on.
func TestWatchRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		var out bytes.Buffer
		o := getOptions{interval: time.Second}
		err := watch(context.Background(), &out, o, func(context.Context) ([]measured, error) { return nil, down })
		if !errors.Is(err, down) {
			t.Errorf("error %v, want %v", err, down)
		}

		ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer cancel()
		reads := 0
		err = watch(ctx, &out, o, func(context.Context) ([]measured, error) {
			if reads++; reads == 2 {
				return nil, down
			}
			return []measured{{about: "pod/a", number: float64(reads)}}, nil
		})
		rows := strings.Split(strings.TrimSpace(out.String()), "\n")
		if err != nil || len(rows) != 3 || !strings.HasSuffix(rows[0], "pod/a\t1") || !strings.Contains(rows[1], "refused") || !strings.HasSuffix(rows[2], "pod/a\t3") {
			t.Errorf("rows %q (%v): want 1, an error, 3", rows, err)
		}
	})
}
