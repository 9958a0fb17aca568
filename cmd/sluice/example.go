package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// exampleConfig prints a configuration file with every setting at its default, commented out.
func exampleConfig() string {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	defaultConfig().bind(flags)
	var b strings.Builder
	b.WriteString("# Settings of \"sluice serve --config FILE\". What is commented out stands at its default;\n" +
		"# an unknown setting is an error. Flags of the same names go before.\n")
	flags.VisitAll(func(flag *pflag.Flag) {
		value := flag.DefValue
		if value == "" || strings.HasPrefix(value, ":") {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&b, "\n# %s\n", flag.Usage)
		fmt.Fprintf(&b, "# %s: %s\n", flag.Name, value)
	})
	return b.String()
}
