package command

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refuseUnknownShells makes cobra's command "completion" fail for a shell that it doesn't know. By default
// it prints its help and succeeds, so the help would become a shell's script.
func refuseUnknownShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		if command.Name() != "completion" {
			continue
		}
		command.Use = "completion SHELL"
		command.Args = cobra.ArbitraryArgs
		command.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usage(UnknownCommand(cmd, args[0]))
			}
			return cmd.Help()
		}
	}
}

// letCobraReadFlags prepares the commands for the questions of the shells' completion: cobra
// completes flags only where it reads them itself.
func letCobraReadFlags(root *cobra.Command) {
	for _, command := range root.Commands() {
		command.DisableFlagParsing = false
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if words := wordsOf(flag); words != nil {
				_ = command.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
			}
		})
	}
}

// wordsOf are the values that a flag takes, if they are a few words; nil: others.
func wordsOf(flag *pflag.Flag) []string {
	if choice, ok := flag.Value.(*Choice); ok {
		return choice.Words
	}
	return nil
}
