package main

import (
	"fmt"
	"runtime"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			if err := command.Usage(append(faults, command.NoneOf(args)...)...); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		}),
	}
}

func versionLine() string { return "sluice " + sluice.Build() }

// buildInformation is the build section of GET /api/v1/status.
func buildInformation() map[string]string {
	return map[string]string{"version": sluice.Version, "revision": sluice.Commit(), "goVersion": runtime.Version()}
}
