package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newHelp takes the place of cobra's own, which shows the root's help for a command that there is not, and calls it a
// success.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: reading(func(cmd *cobra.Command, args []string, faults []error) error {
			named, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 && named == cmd.Root() {
				err, rest = unknownCommand(named, rest[0]), nil
			}
			if err := usage(append(append(faults, err), noneOf(rest)...)...); err != nil {
				return err
			}
			named.InitDefaultHelpFlag()
			named.InitDefaultVersionFlag()
			return named.Help()
		}),
	}
}

func unknownCommand(root *cobra.Command, name string) error {
	return fmt.Errorf("unknown command %q: want one of %s", name, commandNames(root))
}
