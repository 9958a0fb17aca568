package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reading wraps the work of a command so that it gets its arguments together with every fault in its
// flags, to report them with those that it finds itself: pflag stops at the first, so the arguments of
// our commands are read here (DisableFlagParsing is set for all of them).
func reading(work func(cmd *cobra.Command, args []string, faults []error) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, raw []string) error {
		args, faults := readArguments(cmd.Flags(), raw)
		if help, err := cmd.Flags().GetBool("help"); err == nil && help {
			return cmd.Help()
		}
		return work(cmd, args, faults)
	}
}

// readArguments sets flags from raw and returns what are not flags, with every fault found. A piece that
// starts with a minus and a digit is a number, not a flag.
func readArguments(flags *pflag.FlagSet, raw []string) (args []string, faults []error) {
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
		}
		if flag == nil {
			faults = append(faults, fmt.Errorf("unknown flag %s", name))
			if !hasValue && len(raw) > 0 && !looksLikeFlag(raw[0]) {
				raw = raw[1:] // most likely its value: as an argument it would be one fault more
			}
			continue
		}
		if !hasValue && flag.NoOptDefVal != "" {
			value, hasValue = flag.NoOptDefVal, true
		}
		if !hasValue {
			if len(raw) == 0 {
				faults = append(faults, fmt.Errorf("--%s wants a value", flag.Name))
				continue
			}
			value, raw = raw[0], raw[1:]
		}
		if err := set(flag, value); err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag.Name, err))
			continue
		}
		flag.Changed = true
	}
	return args, faults
}

// set gives a flag a value. One that it does not take leaves the value as it was: pflag's own types would
// turn to 0, which would be a fault more.
func set(flag *pflag.Flag, value string) error {
	before := flag.Value.String()
	err := flag.Value.Set(value)
	if err == nil {
		return nil
	}
	_ = flag.Value.Set(before)
	var number *strconv.NumError
	if errors.As(err, &number) {
		err = number.Err // without the name of the function that said so
	}
	return fmt.Errorf("%q: %w", value, err)
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

// noneOf is a fault for each argument, for commands that take none.
func noneOf(args []string) []error {
	faults := make([]error, len(args))
	for i, arg := range args {
		faults[i] = fmt.Errorf("unexpected argument %q", arg)
	}
	return faults
}
