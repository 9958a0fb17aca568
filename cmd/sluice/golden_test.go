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

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// exampleFile is what "sluice serve --print-example-config" prints, kept where people look for it.
const exampleFile = "../../sluice.example.yaml"

// called runs one command line and returns what it did.
func called(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return commandtest.Run(newSluice(), "", args...)
}

// held compares with a golden file, or writes it.
func held(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s is not what is printed now (go test ./cmd/sluice -update writes it):\n%s", file, got)
	}
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help":         {"--help"},
		"serve_help":   {"serve", "--help"},
		"agent_help":   {"agent", "--help"},
		"push_help":    {"push", "--help"},
		"get_help":     {"get", "-h"},
		"list_help":    {"list", "--help"},
		"top_help":     {"top", "--help"},
		"explain_help": {"explain", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := called(t, args...)
			if code != command.ExitOK || errs != "" {
				t.Errorf("exit code %d, errors %q: want 0 and none", code, errs)
			}
			held(t, filepath.Join("testdata", name+".txt"), out)
		})
	}
}

func TestExampleConfig(t *testing.T) {
	code, out, errs := called(t, "serve", "--print-example-config")
	if code != command.ExitOK || errs != "" {
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
	must(t, os.WriteFile(file, []byte(strings.Join(live, "\n")), 0o644))
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

func TestHelpOfACommand(t *testing.T) {
	_, want, _ := called(t, "serve", "--help")
	if code, out, errs := called(t, "help", "serve"); code != command.ExitOK || out != want || errs != "" {
		t.Errorf("exit code %d, %q %q: want what serve --help prints", code, out, errs)
	}
	_, want, _ = called(t, "--help")
	if code, out, errs := called(t, "help"); code != command.ExitOK || out != want || errs != "" {
		t.Errorf("exit code %d, %q %q: want what --help prints", code, out, errs)
	}
	code, out, errs := called(t, "help", "unheard")
	if code != command.ExitUsage || out != "" || !strings.Contains(errs, `unknown command "unheard"; must be one of agent, completion, explain, get, `) {
		t.Errorf("exit code %d, %q %q: want %d and the commands that there are", code, out, errs, command.ExitUsage)
	}
	_, want, _ = called(t, "rule")
	for _, args := range [][]string{{"rule", "--help"}, {"rule", "-h"}, {"help", "rule"}} {
		if code, out, errs := called(t, args...); code != command.ExitOK || out != want || errs != "" {
			t.Errorf("%v: exit code %d, %q %q: want what rule prints", args, code, out, errs)
		}
	}
	code, out, errs = called(t, "rule", "tset", "--what")
	if code != command.ExitUsage || out != "" {
		t.Errorf("exit code %d, %q: want %d and no help", code, out, command.ExitUsage)
	}
	commandtest.WantLines(t, errs, `unknown command "tset"; did you mean "test"?`, "unknown flag --what")
	code, out, errs = called(t, "help", "serve", "extra", "--what")
	if code != command.ExitUsage || out != "" {
		t.Errorf("exit code %d, %q: want %d and no help", code, out, command.ExitUsage)
	}
	commandtest.WantLines(t, errs, `unexpected argument "extra"`, "unknown flag --what")
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A file without room for the output is an error.
func TestPrintingFails(t *testing.T) {
	for _, args := range [][]string{{"serve", "--print-example-config"}, {"version"}} {
		var errs strings.Builder
		code := run(context.Background(), args, command.Streams{In: strings.NewReader(""), Out: full{}, Err: &errs})
		if code != command.ExitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit code %d, %q: want %d and why", args, code, errs.String(), command.ExitFailed)
		}
	}
	if code, out, _ := called(t, "serve", "--print-example-config", "extra"); code != command.ExitUsage || out != "" {
		t.Errorf("exit code %d, %.40q: want %d and no file", code, out, command.ExitUsage)
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	_, want, _ := called(t, "version")
	if code, out, errs := called(t, "--version"); code != command.ExitOK || out != want || !strings.HasPrefix(out, "sluice ") {
		t.Errorf("exit code %d, %q %q: want %q", code, out, errs, want)
	}
}

// Help fits the terminal, at any width that is usable.
func TestHelpFitsTheTerminal(t *testing.T) {
	root := newSluice()
	for _, width := range []int{60, 80, 120} {
		for _, c := range root.Commands() {
			examples := strings.Count(c.Example, "\n") + 1
			for _, line := range strings.Split(command.HelpText(c, width), "\n") {
				if words := strings.Fields(line); utf8.RuneCountInString(line) > width && len(words) > 1 && !strings.Contains(c.Long, line) {
					if examples--; examples < 0 {
						t.Errorf("%s at %d columns: %s", c.Name(), width, line)
					}
				}
			}
		}
	}
}
