package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/sluice-metrics/sluice/config"
	"github.com/sluice-metrics/sluice/loadtest"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const loadtestLong = `Loadtest starts a server of its own on the loopback, sends it StatsD over UDP, and prints what a line
costs: the server's CPU time, beside that of receivers that only count lines (the floors) under the same
load. The server stores what it gets, in a temporary folder. Some scenarios measure other figures.

A run whose books do not balance (sent = applied + rejected + dropped by the kernel, and the sum over all
series = applied) prints no figures and ends with exit code 1. With more than one processor the server has
one to itself and the sender another; figures of a machine that does other work are indicative.

Another StatsD server is measured under the same load by its command line (--target), which the shell runs: {udp}
is the port to listen on, {tcp} a free one, and {config} the place of a copy of --target-config with these filled in.
It has no books: what it took is what was sent less what the kernel dropped.`

const loadtestExample = `  sluice loadtest
  sluice loadtest plain-10k --runs 5
  sluice loadtest tagged-10k plain-10k timers-10k
  sluice loadtest tagged-10k --rate 500000 --lines 10000000 -o json
  sluice loadtest timers-10k --client
  sluice loadtest all --runs 5 -o json
  sluice loadtest plain-10k --search
  sluice loadtest tagged-10k --rate 200000 --target 'statsd_exporter --statsd.listen-udp=127.0.0.1:{udp} --statsd.listen-tcp='`

func newLoadtest() *cobra.Command {
	cfg, output, floor := loadtest.DefaultConfig(), "table", ""
	cmd := &cobra.Command{
		Use:     "loadtest [SCENARIO...|all]",
		Short:   "Measure what a line costs, and whether the books balance",
		Long:    loadtestLong + "\n\n" + scenarioList(),
		Example: loadtestExample,
		RunE: reading(func(cmd *cobra.Command, args []string, faults []error) error {
			switch {
			case slices.Equal(args, []string{"all"}):
				cfg.Scenarios = all(cfg)
			case len(args) > 0:
				cfg.Scenarios = args
			}
			if output != "table" && output != "json" {
				faults = append(faults, fmt.Errorf("--output: %q, want table or json", output))
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			cfg.Binary, cfg.Version = binary, versionLine()
			for _, fault := range config.Split(cfg.Validate()) {
				if field, text := cutField(fault.Error()); cmd.Flags().Lookup(field) != nil {
					fault = &settingFault{field, "--" + field + ":", oneTone.Replace(text)}
				}
				faults = append(faults, fault)
			}
			if err := usage(faults...); err != nil {
				return err
			}
			if floor != "" {
				return runFloor(cmd, floor)
			}
			return runLoadtest(cmd, cfg, output)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&cfg.Lines, "lines", 0, "lines of one run, rounded up to whole datagrams (default: as the scenario says)")
	flags.IntVar(&cfg.Rate, "rate", 0, "lines a second (default: as the scenario says)")
	flags.IntVar(&cfg.Runs, "runs", cfg.Runs, "how often, each time with a new server; several give median, minimum and maximum")
	flags.BoolVar(&cfg.Client, "client", false, "send through go-statsd-client, a call a line, as an application does")
	flags.BoolVar(&cfg.Search, "search", false, "look for the highest rate at which nothing is lost, of the server and of the floor, instead of what a line costs")
	flags.StringVar(&cfg.Target, "target", "", "command line of another StatsD server to measure in place of Sluice, with {udp} for the port that it has to listen on")
	flags.StringVar(&cfg.TargetConfig, "target-config", "", "file to copy for the target, with {udp} filled in; its place is {config} in --target")
	flags.BoolVar(&cfg.Short, "short", false, "do less than a good figure needs: what shows in seconds that all works")
	flags.BoolVar(&cfg.Pin, "pin", cfg.Pin, "give the server a processor to itself and the sender another, where there are two")
	flags.StringVarP(&output, "output", "o", output, "table or json")
	flags.StringVar(&floor, loadtest.FloorFlag, "", "")
	_ = flags.MarkHidden(loadtest.FloorFlag) // it is there: this cannot fail
	return cmd
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
	return fmt.Sprintf(", %d a second", s.Rate)
}

// all are the scenarios that do what is asked for.
func all(cfg loadtest.Config) (names []string) {
	for _, s := range loadtest.Scenarios() {
		if cfg.Takes(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

func runFloor(cmd *cobra.Command, way string) error {
	ctx, release := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer release()
	return loadtest.Floor(ctx, way, cmd.InOrStdin(), cmd.OutOrStdout())
}

func runLoadtest(cmd *cobra.Command, cfg loadtest.Config, output string) error {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, release := signal.NotifyContext(cmd.Context(), signals...)
	defer release()
	cfg.Progress, cfg.ProgressColumns = terminal(cmd.ErrOrStderr())
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

// terminal is w where somebody looks at it, else nil, and how wide it is, as long as it says so.
func terminal(w io.Writer) (_ io.Writer, columns func() int) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, nil
	}
	return w, func() int {
		columns, _, _ := term.GetSize(int(file.Fd())) // else 0
		return columns
	}
}
