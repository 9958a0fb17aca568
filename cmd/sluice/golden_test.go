package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// exampleFile is what "sluice serve --print-example-config" prints, kept where people look for it.
const exampleFile = "../../sluice.example.yaml"

// called runs one command line and returns what it did.
func called(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return calledWith(t, "", args...)
}

func calledWith(t *testing.T, input string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = run(context.Background(), args, streams{in: strings.NewReader(input), out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

// held compares with a golden file, or writes it.
func held(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what is printed now (go test ./cmd/sluice -update writes it):\n%s", file, got)
	}
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help":       {"--help"},
		"serve_help": {"serve", "--help"},
		"push_help":  {"push", "--help"},
		"get_help":   {"get", "-h"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := called(t, args...)
			if code != exitOK || errs != "" {
				t.Errorf("exit code %d, errors %q: want 0 and none", code, errs)
			}
			held(t, filepath.Join("testdata", name+".txt"), out)
		})
	}
}

func TestExampleConfig(t *testing.T) {
	code, out, errs := called(t, "serve", "--print-example-config")
	if code != exitOK || errs != "" {
		t.Errorf("exit code %d, errors %q: want 0 and none", code, errs)
	}
	held(t, exampleFile, out)
}

// Every line of the example, uncommented, must be a setting that serve takes, at its default.
func TestExampleConfigUncommentedIsTheDefault(t *testing.T) {
	var live []string
	for _, line := range strings.Split(exampleConfig(), "\n") {
		setting := strings.TrimPrefix(line, "# ")
		if name, _, ok := strings.Cut(setting, ": "); ok && newServe().Flags().Lookup(name) != nil {
			live = append(live, setting)
		}
	}
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(live, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := newServe().Flags()
	if _, faults := readConfigFile(file, flags); len(faults) > 0 {
		t.Fatal(faults)
	}
	if len(live) < 20 {
		t.Errorf("%d settings found in the example: want all", len(live))
	}
	for _, name := range []string{"windows", "http-max-body", "external-ttl", "log-level"} {
		if flag := flags.Lookup(name); flag.Value.String() != flag.DefValue {
			t.Errorf("%s is %s after reading the example, want %s", name, flag.Value, flag.DefValue)
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	code, _, errs := called(t, "server")
	if code != exitUsage || !strings.Contains(errs, `unknown command "server"`) || !strings.Contains(errs, "serve, ") {
		t.Errorf("exit code %d, %q: want %d and the commands that there are", code, errs, exitUsage)
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	_, want, _ := called(t, "version")
	if code, out, errs := called(t, "--version"); code != exitOK || out != want || !strings.HasPrefix(out, "sluice ") {
		t.Errorf("exit code %d, %q %q: want %q", code, out, errs, want)
	}
}
