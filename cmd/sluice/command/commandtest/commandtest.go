// Package commandtest runs command lines in tests.
package commandtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/spf13/cobra"
)

// Run runs one command line with this standard input and returns what it did. Requests have an hour,
// unless the command line sets --timeout.
func Run(root *cobra.Command, input string, args ...string) (code int, out, errs string) {
	for _, c := range root.Commands() {
		if limit := c.Flags().Lookup("timeout"); limit != nil {
			_ = limit.Value.Set("1h") // neither the default in help texts nor a flag of the user
		}
	}
	var stdout, stderr strings.Builder
	code = command.Execute(context.Background(), root, args, command.Streams{In: strings.NewReader(input),
		Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// WantLines wants exactly these beginnings of lines among the errors, in any order, and a last line
// with a hint.
func WantLines(t *testing.T, errs string, want ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if !strings.HasPrefix(lines[len(lines)-1], "see 'sluice ") {
		t.Errorf("the last line is %q, want a hint where help is", lines[len(lines)-1])
	}
	lines = lines[:len(lines)-1]
	for _, w := range want {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, w) }) {
			t.Errorf("no line with %q", w)
		}
	}
	if len(lines) != len(want) || t.Failed() {
		t.Errorf("%d faults, want %d:\n%s", len(lines), len(want), errs)
	}
}

// ContainsAll reports whether all parts are in the text.
func ContainsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
