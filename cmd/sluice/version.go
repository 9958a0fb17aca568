package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by the Makefile through -ldflags; a plain "go build" leaves them to the
// build's own record.
var version, commit string

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: reading(func(cmd *cobra.Command, args []string, faults []error) error {
			if err := usage(append(faults, noneOf(args)...)...); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		}),
	}
}

func versionLine() string {
	name, revision := built()
	return fmt.Sprintf("sluice %s (commit %s, %s, %s/%s)", name, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// built returns version and commit, "unknown" where nobody recorded them.
func built() (name, revision string) {
	name, revision = version, commit
	if build, ok := debug.ReadBuildInfo(); ok {
		if name == "" {
			name = build.Main.Version
		}
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" && revision == "" {
				revision = s.Value
			}
		}
	}
	if name == "" {
		name = "unknown"
	}
	if revision == "" {
		revision = "unknown"
	}
	return name, revision
}
