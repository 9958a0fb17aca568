package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// NewVersion is the subcommand that prints a version's line.
func NewVersion(line string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			if err := Usage(append(faults, NoneOf(args)...)...); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		}),
	}
}
