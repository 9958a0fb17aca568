// Command sluice-loadtest measures a sluice server, and other StatsD servers beside it, on this
// machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/loadtest"
	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	if code, isFloor := loadtest.FloorMain(); isFloor {
		os.Exit(code)
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// usageError is a fault of the command line.
type usageError struct{ error }

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(errs, "sluice-loadtest: %s\n", strings.TrimSuffix(line, "\n"))
	}
	if errors.As(err, &usageError{}) {
		fmt.Fprintln(errs, "see 'sluice-loadtest --help'")
		return exitUsage
	}
	return exitFailed
}

const long = `sluice-loadtest starts a sluice server on the loopback interface, sends StatsD lines over UDP, and
prints the server's CPU time per line. Beside it stands the CPU time of two receivers that only count
lines (the floors) under the same load. The server persists to a temporary folder. Other scenarios
measure latencies, restarts, persistence and memory.

A run is valid only if every line is accounted for: sent = applied + rejected + dropped by the kernel,
and the sum over all series = applied. An invalid run prints no figures and ends with exit code 1. With
two processors or more, the server and the sender are each pinned to one. Figures of a busy machine are
indicative only.

--peers measures other StatsD servers under the same load, in turn with sluice. FILE is a list in YAML or
JSON of name, command, config and scenarios: loadtest/peers.yaml is an example. In command and config,
{udp} is the port to listen on and {tcp} is a free port; {config} in the command is the path of a copy
of config. Such a server reports nothing: the lines taken are the lines sent less those that the kernel
dropped.`

const example = `  sluice-loadtest
  sluice-loadtest plain-10k --runs 5
  sluice-loadtest tagged-10k plain-10k timers-10k
  sluice-loadtest tagged-10k --rate 500000 --lines 10000000 -o json
  sluice-loadtest all --rate 20000,100000,400000,max --peers loadtest/peers.yaml -o json
  sluice-loadtest all --runs 5 -o json`

func newCommand() *cobra.Command {
	cfg, peers, output := loadtest.DefaultConfig(), "", "table"
	cmd := &cobra.Command{
		Use:           "sluice-loadtest [SCENARIO...|all]",
		Short:         "Measure a StatsD server on this machine",
		Long:          long + "\n\n" + scenarioList(),
		Example:       example,
		Version:       sluice.Build().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			fault := readPeers(&cfg, peers)
			switch {
			case slices.Equal(args, []string{"all"}):
				cfg.Scenarios = all(cfg)
			case len(args) > 0:
				cfg.Scenarios = args
			}
			faults := errors.Join(fault, cfg.Validate())
			if output != "table" && output != "json" {
				faults = errors.Join(faults, fmt.Errorf("--output is %q; must be table or json", output))
			}
			if faults != nil {
				return usageError{faults}
			}
			return measure(cmd, cfg, output)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.CompletionOptions.DisableDefaultCmd = true
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&cfg.Binary, "binary", serverBinary(), "sluice binary to measure")
	flags.Lookup("binary").DefValue = "the sluice beside sluice-loadtest, or in $PATH"
	flags.IntVar(&cfg.Lines, "lines", 0, "lines of one run, rounded up to whole datagrams (default: set by the scenario)")
	flags.Var(&cfg.Rates, "rate",
		"rates to measure, in lines per second or max, separated by commas (default: set by the scenario)")
	flags.IntVar(&cfg.Runs, "runs", cfg.Runs, "number of runs, each with a new server; several give median, minimum and maximum")
	flags.StringVar(&peers, "peers", "",
		"`file` of other StatsD servers to measure under the same load; those not installed are skipped")
	flags.BoolVar(&cfg.Short, "short", false, "run a small size that finishes in seconds; its figures are not held against the aims")
	flags.StringVarP(&output, "output", "o", output, "output format: table or json")
	return cmd
}

// readPeers reads the file of --peers.
func readPeers(cfg *loadtest.Config, path string) (err error) {
	if path != "" {
		cfg.Peers, err = loadtest.ReadPeers(path)
	}
	if err != nil {
		return fmt.Errorf("--peers: %w", err)
	}
	return nil
}

// serverBinary returns the path of the sluice beside this binary, or else of the sluice in $PATH.
func serverBinary() string {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "sluice")
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	path, _ := exec.LookPath("sluice")
	return path
}

func scenarioList() string {
	var b strings.Builder
	b.WriteString("Scenarios:\n")
	for _, s := range loadtest.Scenarios() {
		fmt.Fprintf(&b, "  %-15s ", s.Name)
		if s.SendsLines() {
			fmt.Fprintf(&b, "%d %s; %d lines%s\n", s.Series(), s.About, s.Lines, pace(s))
		} else {
			fmt.Fprintln(&b, s.About)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func pace(s loadtest.Scenario) string {
	if s.Rate == 0 {
		return ""
	}
	return fmt.Sprintf(", %d per second", s.Rate)
}

// all returns the names of the scenarios on which every given setting has an effect.
func all(cfg loadtest.Config) (names []string) {
	for _, s := range loadtest.Scenarios() {
		if cfg.Takes(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

func measure(cmd *cobra.Command, cfg loadtest.Config, output string) error {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, release := signal.NotifyContext(cmd.Context(), signals...)
	defer release()
	version, err := serverVersion(ctx, cfg)
	if err != nil {
		return err
	}
	cfg.Version, cfg.Progress = version, cmd.ErrOrStderr()
	report, err := loadtest.Measure(ctx, cfg)
	if report == nil || len(report.Scenarios) == 0 {
		return err
	}
	write := report.WriteTable
	if output == "json" {
		write = report.WriteJSON
	}
	return errors.Join(write(cmd.OutOrStdout()), err)
}

// serverVersion returns the output of the server's version command.
func serverVersion(ctx context.Context, cfg loadtest.Config) (string, error) {
	said, err := exec.CommandContext(ctx, cfg.Binary, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", cfg.Binary, err)
	}
	return strings.TrimSpace(string(said)), nil
}
