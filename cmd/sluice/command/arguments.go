package command

import (
	"encoding"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WithArguments wraps the work of a command. The work gets the arguments together with every fault in the
// flags, and reports them with its own: pflag alone stops at the first fault. Therefore commands
// have DisableFlagParsing, and ReadArguments reads flags.
func WithArguments(work func(cmd *cobra.Command, args []string, faults []error) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, raw []string) error {
		args, faults := ReadArguments(cmd.Flags(), raw)
		if help, err := cmd.Flags().GetBool("help"); err == nil && help {
			return cmd.Help()
		}
		return work(cmd, args, faults)
	}
}

// UnknownFlag is a flag that a command does not have, or such a key in the configuration file.
// Other faults may be its consequence.
type UnknownFlag struct {
	Text    string
	Nearest string // name of the flag that may be meant; empty: none
}

func (u *UnknownFlag) Error() string { return u.Text }

func AnyUnknown(faults []error) bool {
	return slices.ContainsFunc(faults, func(fault error) bool {
		var unknown *UnknownFlag
		return errors.As(fault, &unknown)
	})
}

// newUnknownFlag suggests the nearest flag.
func newUnknownFlag(written string, flags *pflag.FlagSet) *UnknownFlag {
	u := &UnknownFlag{"unknown flag " + written, NearestFlag(written, flags)}
	if u.Nearest != "" {
		u.Text += "; did you mean --" + u.Nearest + "?"
	}
	return u
}

// NearestFlag is the name of the flag that is closest to what is written; empty: none is close.
func NearestFlag(written string, flags *pflag.FlagSet) string {
	var names []string
	flags.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return suggest.Nearest(strings.ReplaceAll(strings.ToLower(strings.TrimLeft(written, "-")), "_", "-"), names)
}

// ReadArguments sets flags from raw. It returns the arguments that are not flags, and every fault.
// An argument that starts with a minus and a digit is a number, not a flag.
func ReadArguments(flags *pflag.FlagSet, raw []string) (args []string, faults []error) {
	for len(raw) > 0 {
		arg := raw[0]
		raw = raw[1:]
		if arg == "--" {
			return append(args, raw...), faults
		}
		if !looksLikeFlag(arg) {
			args = append(args, arg)
			continue
		}
		name, value, hasValue := strings.Cut(arg, "=")
		flag := flags.Lookup(strings.TrimPrefix(name, "--"))
		if !strings.HasPrefix(arg, "--") {
			flag, value, hasValue = shorthand(flags, arg)
			if flag != nil {
				name = arg[:2]
			}
		}
		if flag == nil {
			faults = append(faults, newUnknownFlag(name, flags))
			if !hasValue && len(raw) > 0 && !looksLikeFlag(raw[0]) {
				raw = raw[1:] // most likely the value of this flag: as an argument it would be a second fault
			}
			continue
		}
		if !hasValue && flag.NoOptDefVal != "" {
			value, hasValue = flag.NoOptDefVal, true
		}
		if !hasValue {
			if len(raw) == 0 {
				faults = append(faults, &SettingFault{flag.Name, name, "is without a value"})
				continue
			}
			value, raw = raw[0], raw[1:]
		}
		if err := Set(flag, value); err != nil {
			faults = append(faults, &SettingFault{flag.Name, name, err.Error()})
			continue
		}
		flag.Changed = true
	}
	return args, faults
}

// shorthand takes "-n", "-n=shop" and "-nshop" apart.
func shorthand(flags *pflag.FlagSet, arg string) (flag *pflag.Flag, value string, hasValue bool) {
	flag = flags.ShorthandLookup(arg[1:2])
	rest := arg[2:]
	return flag, strings.TrimPrefix(rest, "="), rest != ""
}

func looksLikeFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	return arg[1] != '.' && (arg[1] < '0' || arg[1] > '9')
}

// CountArguments is the number of arguments in words.
func CountArguments(n int) string {
	switch n {
	case 0:
		return "no arguments"
	case 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// NoneOf is a fault for each argument, for commands that take none.
func NoneOf(args []string) []error {
	faults := make([]error, len(args))
	for i, arg := range args {
		faults[i] = fmt.Errorf("unexpected argument %q", arg)
	}
	return faults
}

// Choice is a flag that takes one of a few words. Its variable is a string, or a type that converts
// itself to and from text.
type Choice struct {
	variable any
	Words    []string
}

// NewChoice is a flag that sets the variable to one of these words.
func NewChoice(variable any, words []string) *Choice { return &Choice{variable, words} }

// Set implements pflag.Value.
func (c *Choice) Set(s string) error {
	word := strings.ToLower(s)
	if !slices.Contains(c.Words, word) {
		return fmt.Errorf("must be %s%s", OneOf(c.Words), suggest.DidYouMean(word, c.Words))
	}
	if variable, ok := c.variable.(*string); ok {
		*variable = word
		return nil
	}
	return c.variable.(encoding.TextUnmarshaler).UnmarshalText([]byte(word))
}

func (c *Choice) String() string {
	if variable, ok := c.variable.(*string); ok {
		return *variable
	}
	text, err := c.variable.(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return ""
	}
	return strings.ToLower(string(text))
}

// Type implements pflag.Value.
func (c *Choice) Type() string { return strings.Join(c.Words, "|") }

// Completed is a flag's value of which a shell completes some.
type Completed interface{ Completions() []string }

// Completions implements Completed.
func (c *Choice) Completions() []string { return c.Words }

func (c *Choice) Target() any { return c.variable }

// OneOf lists alternatives: "a, b or c".
func OneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
