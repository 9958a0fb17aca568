package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-metrics/sluice/config"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/cobra"
)

// Exit codes of every subcommand.
const (
	exitOK     = 0
	exitFailed = 1 // the command line was valid, its work failed
	exitUsage  = 2 // a flag, an argument or a setting is invalid
)

// usageFaults is everything wrong with a command line, one error a line.
type usageFaults struct{ faults []error }

func (u *usageFaults) Error() string { return errors.Join(u.faults...).Error() }

func (u *usageFaults) Unwrap() []error { return u.faults }

// usage joins errors into a usageFaults; nil if there are none.
func usage(errs ...error) error {
	if faults := config.Split(errs...); len(faults) > 0 {
		return &usageFaults{faults}
	}
	return nil
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// mostOfAnError bounds the printed bytes of one error: an argument may be a whole file by mistake,
// and errors quote arguments.
const mostOfAnError = 2 << 10

// run executes one command line and returns the process's exit code. It writes errors to std.err.
func run(ctx context.Context, args []string, std streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		letCobraReadFlags(root)
	}
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code, hint := exitFailed, ""
	var faults *usageFaults
	if errors.As(err, &faults) {
		code, hint = exitUsage, fmt.Sprintf("see '%s --help'\n", command.CommandPath())
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintf(std.err, "%s: %s\n", command.CommandPath(), metric.Truncate(line, mostOfAnError))
	}
	fmt.Fprint(std.err, hint)
	return code
}

func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Pushed metrics for Kubernetes autoscaling",
		Long: `Sluice turns pushed metrics into Kubernetes autoscaling: applications push StatsD, batch jobs push
over HTTP, and the Horizontal Pod Autoscaler reads the standard metrics APIs.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usage(unknownCommand(cmd, args[0]))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetHelpFunc(printHelp)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	help := newHelp()
	root.SetHelpCommand(help)
	for _, command := range []*cobra.Command{newServe(), newPush(), newGet(), newVersion(), help} {
		command.DisableFlagParsing = true
		command.InitDefaultHelpFlag()
		root.AddCommand(command)
	}
	return root
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, command := range root.Commands() {
		if command.IsAvailableCommand() {
			names = append(names, command.Name())
		}
	}
	return names
}
