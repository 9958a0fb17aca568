package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
	if choice, ok := flag.Value.(*choice); ok {
		return choice.words
	}
	return nil
}

// completeKinds completes the first argument of get.
func completeKinds(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words := []string{"external"}
	for _, resource := range shortNames {
		words = append(words, resource+"/")
	}
	slices.Sort(words)
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
