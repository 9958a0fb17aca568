package command

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newHelp replaces cobra's own help command, which prints the root's help for an unknown command
// and calls that a success.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			named, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 && named == cmd.Root() {
				err, rest = UnknownCommand(named, rest[0]), nil
			}
			if err := Usage(append(append(faults, err), NoneOf(rest)...)...); err != nil {
				return err
			}
			named.InitDefaultHelpFlag()
			named.InitDefaultVersionFlag()
			return named.Help()
		}),
	}
}

func UnknownCommand(root *cobra.Command, name string) error {
	if text := suggest.DidYouMean(name, commandNames(root)); text != "" {
		return fmt.Errorf("unknown command %q%s", name, text)
	}
	return fmt.Errorf("unknown command %q; must be one of %s", name, strings.Join(commandNames(root), ", "))
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

// printHelp prints the help of a command: its text, usage, examples, subcommands, and flags by
// groups.
func printHelp(cmd *cobra.Command, _ []string) {
	fmt.Fprint(cmd.OutOrStdout(), HelpText(cmd, columns(cmd.OutOrStdout())))
}

func HelpText(cmd *cobra.Command, width int) string {
	var b strings.Builder
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	for _, paragraph := range strings.Split(strings.TrimSpace(long), "\n\n") {
		if strings.Contains("\n"+paragraph, "\n\t") || strings.Contains("\n"+paragraph, "\n  ") {
			b.WriteString(paragraph + "\n\n") // commands to copy, or a list
			continue
		}
		b.WriteString(Wrap(paragraph, "", width) + "\n")
	}
	fmt.Fprintf(&b, "Usage:\n")
	for _, line := range usageLines(cmd) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, command := range cmd.Commands() {
			if command.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-11s %s\n", command.Name(), command.Short)
			}
		}
	}
	for name, text := range map[string]string{"help": "Print this help.", "version": "Print the version."} {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			flag.Usage = text // cobra's is "help for sluice"
		}
	}
	for _, group := range flagGroups(cmd.Flags()) {
		fmt.Fprintf(&b, "\n%s:\n", group.heading)
		for _, flag := range group.flags {
			b.WriteString(flagHelp(flag, width))
		}
	}
	if cmd.HasAvailableSubCommands() {
		more := fmt.Sprintf("Use \"%s COMMAND --help\" for more about a command.", cmd.CommandPath())
		b.WriteString("\n" + Wrap(more, "", width))
	}
	return b.String()
}

// usageLines are the forms of a command line, which Use separates with " | ".
func usageLines(cmd *cobra.Command) []string {
	if !cmd.HasParent() {
		return []string{cmd.CommandPath() + " COMMAND"}
	}
	var lines []string
	for _, form := range strings.Split(cmd.Use, " | ") {
		lines = append(lines, cmd.Parent().CommandPath()+" "+form+" [flags]")
	}
	return lines
}

// flagHelp is a line with the flag, its values and its default, and the help below it.
func flagHelp(flag *pflag.Flag, width int) string {
	line := "  --" + flag.Name
	if flag.Shorthand != "" {
		line = "  -" + flag.Shorthand + ", --" + flag.Name
	}
	if kind := flag.Value.Type(); kind != "bool" {
		line += " " + valueName(kind)
	}
	if value := ShortDuration(flag); !slices.Contains([]string{"", "0", "0s", "false", "[]"}, value) {
		line += " (default " + value + ")"
	}
	return wrapAt(line, "  ", "      ", width) + Wrap(flag.Usage, "      ", width)
}

// valueName stands for a flag's value.
func valueName(kind string) string {
	switch kind {
	case "float64":
		return "number"
	case "int":
		return "integer"
	case "stringArray":
		return "string"
	}
	return kind
}

// ShortDuration is the default of a flag; of a duration "24h" rather than "24h0m0s".
func ShortDuration(flag *pflag.Flag) string {
	value := flag.DefValue
	if flag.Value.Type() == "duration" && len(value) > 2 {
		if short, ok := strings.CutSuffix(value, "m0s"); ok {
			value = short + "m"
		}
		if short, ok := strings.CutSuffix(value, "h0m"); ok {
			value = short + "h"
		}
	}
	return value
}

// flagGroup is flags under one heading.
type flagGroup struct {
	heading string
	flags   []*pflag.Flag
}

// headingOf is the annotation with a flag's heading.
const headingOf = "heading"

// UnderHeading gives a heading to the flags that bind adds.
func UnderHeading(flags *pflag.FlagSet, heading string, bind func()) {
	before := map[string]bool{}
	flags.VisitAll(func(flag *pflag.Flag) { before[flag.Name] = true })
	bind()
	flags.VisitAll(func(flag *pflag.Flag) {
		if !before[flag.Name] {
			_ = flags.SetAnnotation(flag.Name, headingOf, []string{heading}) // fails for unknown flags only
		}
	})
}

// flagGroups are all flags, in the order of their first one. Those without a heading come last.
func flagGroups(flags *pflag.FlagSet) []flagGroup {
	var groups []flagGroup
	rest := flagGroup{heading: "Flags"}
	flags.VisitAll(func(flag *pflag.Flag) {
		heading := flag.Annotations[headingOf]
		if flag.Hidden {
			return
		}
		if len(heading) == 0 {
			rest.flags = append(rest.flags, flag)
			return
		}
		i := slices.IndexFunc(groups, func(g flagGroup) bool { return g.heading == heading[0] })
		if i < 0 {
			i, groups = len(groups), append(groups, flagGroup{heading: heading[0]})
		}
		groups[i].flags = append(groups[i].flags, flag)
	})
	if len(groups) > 0 {
		rest.heading = "Other flags"
	}
	return append(groups, rest)
}

// Wrap breaks text into lines of at most width columns, each behind a prefix.
func Wrap(text, prefix string, width int) string { return wrapAt(text, prefix, prefix, width) }

// wrapAt is wrap with another prefix for all lines but the first.
func wrapAt(text, first, others string, width int) string {
	var b strings.Builder
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line, empty = others, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return b.String() + line + "\n"
}

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
	if completed, ok := flag.Value.(Completed); ok {
		return completed.Completions()
	}
	return nil
}
