package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadtestHelp(t *testing.T) {
	code, out, errs := called(t, "loadtest", "--help")
	if code != exitOK || errs != "" {
		t.Errorf("exit code %d, errors %q: want 0 and none", code, errs)
	}
	held(t, filepath.Join("testdata", "loadtest_help.txt"), out)
}

func TestLoadtestNamesAllFaults(t *testing.T) {
	code, out, errs := called(t, "loadtest", "no-such", "plain-10k", "plain-10k", "--runs", "0", "-o", "xml", "--rate", "-1")
	if code != exitUsage || out != "" {
		t.Errorf("exit code %d, output %q: want %d and none", code, out, exitUsage)
	}
	for _, want := range []string{`scenario: "no-such"`, `scenario: "plain-10k": is there twice`, "runs: 0", `--output: "xml"`, "rate: -1"} {
		if !strings.Contains(errs, want) {
			t.Errorf("errors %q: want one of %q", errs, want)
		}
	}
}
