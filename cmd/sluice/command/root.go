package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes of every subcommand.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command line was valid, its work failed
	ExitUsage  = 2 // a flag, an argument or a setting is invalid
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// mostOfAnError bounds the printed bytes of one error: an argument may be a whole file by mistake,
// and errors quote arguments.
const mostOfAnError = 2 << 10

// Execute executes one command line and returns the process's exit code. It writes errors to std.Err.
func Execute(ctx context.Context, root *cobra.Command, args []string, std Streams) int {
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.SetArgs(args)
	refuseUnknownShells(root) // cobra's command keeps the output that the root has at this moment
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		letCobraReadFlags(root)
	}
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	code, hint := ExitFailed, ""
	var faults *usageFaults
	if errors.As(err, &faults) {
		code, hint = ExitUsage, fmt.Sprintf("see '%s --help'\n", command.CommandPath())
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintf(std.Err, "%s: %s\n", command.CommandPath(), visibleText(metric.Truncate(line, mostOfAnError)))
	}
	fmt.Fprint(std.Err, hint)
	return code
}

// NewRoot is the command "sluice", with these commands below it. version is the line that --version prints.
func NewRoot(version string, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Pushed metrics for Kubernetes autoscaling",
		Long: `Sluice turns pushed metrics into Kubernetes autoscaling: applications push StatsD, batch jobs push
over HTTP, and the Horizontal Pod Autoscaler reads the standard metrics APIs.

Installed as "kubectl-sluice" in the PATH, it is a plugin of kubectl: kubectl sluice list.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return Usage(UnknownCommand(cmd, args[0]))
		},
	}
	// cobra's own flag prints by a text/template, with which the linker keeps every method of every type.
	wantsVersion := root.Flags().BoolP("version", "v", false, "version for sluice")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*wantsVersion {
			return cmd.Help()
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
		return err
	}
	if isPlugin(os.Args[0]) {
		asPlugin(root)
	}
	root.SetHelpFunc(printHelp)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	help := newHelp()
	root.SetHelpCommand(help)
	for _, command := range append(commands, help) {
		command.DisableFlagParsing = true
		command.InitDefaultHelpFlag()
		root.AddCommand(command)
	}
	return root
}

// pluginName is the name under which kubectl finds this program as a plugin.
const pluginName = "kubectl-sluice"

// isPlugin reports whether the program was started as a plugin of kubectl.
func isPlugin(program string) bool {
	return strings.TrimSuffix(filepath.Base(program), ".exe") == pluginName
}

// asPlugin makes help and errors name the command as its user wrote it.
func asPlugin(root *cobra.Command) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl sluice"}
}

// usageFaults is everything wrong with a command line, one error a line.
type usageFaults struct{ faults []error }

func (u *usageFaults) Error() string { return errors.Join(u.faults...).Error() }

func (u *usageFaults) Unwrap() []error { return u.faults }

// Usage joins errors into a usageFaults; nil if there are none.
func Usage(errs ...error) error {
	if faults := config.Split(errs...); len(faults) > 0 {
		return &usageFaults{faults}
	}
	return nil
}

// NewVersion is the subcommand that prints the version of a build.
func NewVersion(build sluice.Built) *cobra.Command {
	output := NewOutput("text", "json", "yaml")
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			if err := Usage(append(faults, NoneOf(args)...)...); err != nil {
				return err
			}
			if !output.IsDocument() {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "sluice "+build.String())
				return err
			}
			document, err := json.Marshal(build)
			if err != nil {
				return err
			}
			return output.Write(cmd.OutOrStdout(), document)
		}),
	}
	cmd.Flags().VarP(&output, "output", "o", "Format of the output.")
	return cmd
}

// Lines of help are as long as the terminal is wide, between these. Without a terminal they have 80
// columns.
const (
	defaultColumns = 80
	leastColumns   = 40
	mostColumns    = 120 // longer lines are hard to read
)

// columns is the length of lines for a writer.
func columns(out any) int {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return defaultColumns
	}
	width, _ := TerminalSize(term.GetSize(int(file.Fd())))
	return min(max(width-1, leastColumns), mostColumns)
}

// TerminalSize is the size to draw at. A terminal without a known size, such as a serial line or a new
// pseudo terminal, reports 0 columns and 0 rows, and no error.
func TerminalSize(width, height int, err error) (columns, rows int) {
	if err != nil || width <= 0 {
		width = 80
	}
	if err != nil || height <= 0 {
		height = 24
	}
	return width, height
}
