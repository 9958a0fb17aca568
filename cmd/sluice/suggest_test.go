package main

import (
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

func TestSuggestions(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"server"}, `unknown command "server"; did you mean "serve"?`},
		{[]string{"help", "gett"}, `did you mean "get"?`},
		{[]string{"serve", "--max-serie=5"}, "unknown flag --max-serie; did you mean --max-series?"},
		{[]string{"serve", "--max_series=5"}, "did you mean --max-series?"},
		{[]string{"serve", "--trust=namespaces"}, `--trust is "namespaces"; must be open, namespace or strict; did you mean "namespace"?`},
		{[]string{"get", "deploy", "x"}, `WHAT is "deploy"; must be <resource>/<name>, as in deployments.apps/web, or external`},
		{[]string{"get", "extrenal", "x"}, `did you mean "external"?`},
		{[]string{"get", "deploymnts", "x"}, `did you mean "deployments.apps"?`},
		{[]string{"get", "deploy", "web", "x"}, `as in: sluice get deployments.apps/web x`},
		{[]string{"get", "external", "x", "-o", "jsn"}, `-o is "jsn"; must be table, wide, json, yaml, name or jsonpath=TEMPLATE; did you mean "json"?`},
		{[]string{"push", "--gauge", "q", "1", "--object", "svc"}, `--object is "svc"; must be <resource>/<name>, as in services/web`},
	} {
		code, _, errs := called(t, c.args...)
		if code != command.ExitUsage {
			t.Errorf("%v: exit code %d, want %d", c.args, code, command.ExitUsage)
		}
		wantIn(t, errs, c.says)
	}
}

// Shells complete flags, and the values of those that take a few words.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"s"}, []string{"serve\t"}},
		{[]string{"serve", "--http-max-b"}, []string{"--http-max-body\t"}},
		{[]string{"serve", "--dialect", ""}, dialects},
		{[]string{"serve", "--trust", ""}, trustModes},
		{[]string{"serve", "--log-format", ""}, formats},
		{[]string{"push", "--dialect", ""}, dialects},
		{[]string{"get", "-o", ""}, []string{"table\n", "wide\n", "json\n"}},
		{[]string{"get", ""}, []string{"external\n", "pods/\n", "deployments.apps/\n"}},
	} {
		code, out, errs := called(t, append([]string{"__complete"}, c.args...)...)
		if code != command.ExitOK {
			t.Errorf("%v: exit code %d: %s", c.args, code, errs)
		}
		for _, want := range c.want {
			wantIn(t, out, want)
		}
	}
	code, out, errs := called(t, "completion", "nushell")
	if code != command.ExitUsage || out != "" || !strings.Contains(errs, `unknown command "nushell"; must be one of bash, fish, powershell, zsh`) {
		t.Errorf("nushell: exit code %d, %q %q; want %d and the shells that there are", code, out, errs, command.ExitUsage)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, out, errs := called(t, "completion", shell); code != command.ExitOK || len(out) < 1000 {
			t.Errorf("%s: exit code %d, %d bytes, %s", shell, code, len(out), errs)
		}
	}
}

func wantIn(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q is not in:\n%s", want, text)
	}
}
