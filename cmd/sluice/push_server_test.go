package main

import (
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

// Each way to push a value is read back through the metrics API by get, from the object it was
// pushed to.
func TestPushedValuesAreGot(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	http := "http://" + p.push.Addr().String()
	for _, c := range []struct {
		push, get []string
		want      string
	}{
		{[]string{"--gauge", "depth", "-4.5", "-n", "shop", "--object", "deployments/web", "-l", "q=a"}, []string{"-n", "shop", "deployments.apps/web", "depth"}, "-4.5"},
		{[]string{"--gauge", "load", "7", "--object", "nodes/n1"}, []string{"nodes/n1", "load"}, "7"},
		{[]string{"--gauge", "quota", "80", "--object", "namespaces/shop"}, []string{"namespaces/shop", "quota"}, "80"},
		{[]string{"--counter", "jobs", "3", "-n", "shop", "--sync"}, []string{"-n", "shop", "external", "jobs:total"}, "3"},
		{[]string{"--counter", "http/requests", "2"}, []string{"external", "http/requests:total"}, "2"},
		{[]string{"--timer", "latency", "32", "-n", "shop", "--ttl", "1h"}, []string{"-n", "shop", "external", "latency:max:1m"}, "32"},
		{[]string{"--timer", "wait", "5", "-n", "shop", "--ttl", "forever"}, []string{"-n", "shop", "external", "wait:max:1m"}, "5"},
		{[]string{"--set", "users", "bob", "-n", "shop"}, []string{"-n", "shop", "external", "users:unique:1m"}, "1"},
	} {
		if code, _, errs := called(t, append([]string{"push", "--http", http}, c.push...)...); code != command.ExitOK {
			t.Errorf("push %v: %s", c.push, errs)
			continue
		}
		code, out, errs := called(t, append([]string{"get", "--kubeconfig", p.kubeconfig}, c.get...)...)
		if fields := strings.Fields(out); code != command.ExitOK || len(fields) != 10 || fields[7] != c.want {
			t.Errorf("get %v: %s%s: want %s", c.get, out, errs, c.want)
		}
	}
}

func TestPushTellsWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	push := func(args ...string) (int, string) {
		code, _, errs := called(t, append([]string{"push", "--http", "http://" + p.push.Addr().String()}, args...)...)
		return code, errs
	}
	if code, errs := push("--gauge", "q", "1"); code != command.ExitOK {
		t.Fatal(errs)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--gauge", "depth", "many"}, command.ExitUsage, `"many" is not a number`},
		{[]string{"--gauge", "depth", "NaN"}, command.ExitUsage, "NaN is not a value"},
		{[]string{"--gauge", "depth", "1", "-n", "Sh op"}, command.ExitUsage, `"Sh op" is not a namespace`},
		{[]string{"--set", "users", ""}, command.ExitUsage, "(malformed)"},
		{[]string{"--gauge", "depth", "1", "--object", "widgets.example.com/x"}, command.ExitFailed, `no resource "widgets.example.com"`},
		{[]string{"--counter", "q", "1"}, command.ExitFailed, `"q" of "external" is already a gauge; cannot push it as a counter: delete it first, or use another name (kind_conflict)`},
	} {
		code, errs := push(c.args...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit code %d, %q: want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}
