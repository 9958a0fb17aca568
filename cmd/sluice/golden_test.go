package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
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
	if code != exitUsage || !strings.Contains(errs, `unknown command "server"; did you mean "serve"?`) {
		t.Errorf("exit code %d, %q: want %d and a suggestion", code, errs, exitUsage)
	}
}

func TestHelpOfACommand(t *testing.T) {
	_, want, _ := called(t, "serve", "--help")
	if code, out, errs := called(t, "help", "serve"); code != exitOK || out != want || errs != "" {
		t.Errorf("exit code %d, %q %q: want what serve --help prints", code, out, errs)
	}
	_, want, _ = called(t, "--help")
	if code, out, errs := called(t, "help"); code != exitOK || out != want || errs != "" {
		t.Errorf("exit code %d, %q %q: want what --help prints", code, out, errs)
	}
	code, out, errs := called(t, "help", "nope")
	if code != exitUsage || out != "" || !strings.Contains(errs, `unknown command "nope"; must be one of completion, get, `) {
		t.Errorf("exit code %d, %q %q: want %d and the commands that there are", code, out, errs, exitUsage)
	}
	code, out, errs = called(t, "help", "serve", "extra", "--what")
	if code != exitUsage || out != "" {
		t.Errorf("exit code %d, %q: want %d and no help", code, out, exitUsage)
	}
	wantLines(t, errs, `unexpected argument "extra"`, "unknown flag --what")
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What is written to a file that has no room was not written.
func TestPrintingFails(t *testing.T) {
	for _, args := range [][]string{{"serve", "--print-example-config"}, {"version"}} {
		var errs strings.Builder
		code := run(context.Background(), args, streams{in: strings.NewReader(""), out: full{}, err: &errs})
		if code != exitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit code %d, %q: want %d and why", args, code, errs.String(), exitFailed)
		}
	}
	if code, out, _ := called(t, "serve", "--print-example-config", "extra"); code != exitUsage || out != "" {
		t.Errorf("exit code %d, %.40q: want %d and no file", code, out, exitUsage)
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	_, want, _ := called(t, "version")
	if code, out, errs := called(t, "--version"); code != exitOK || out != want || !strings.HasPrefix(out, "sluice ") {
		t.Errorf("exit code %d, %q %q: want %q", code, out, errs, want)
	}
}

// Help fits the terminal, at any width that is usable.
func TestHelpFitsTheTerminal(t *testing.T) {
	root := newRoot(streams{})
	for _, width := range []int{60, 80, 120} {
		for _, command := range root.Commands() {
			examples := strings.Count(command.Example, "\n") + 1
			for _, line := range strings.Split(helpText(command, width), "\n") {
				if words := strings.Fields(line); utf8.RuneCountInString(line) > width && len(words) > 1 && !strings.Contains(command.Long, line) {
					if examples--; examples < 0 {
						t.Errorf("%s at %d columns: %s", command.Name(), width, line)
					}
				}
			}
		}
	}
}
