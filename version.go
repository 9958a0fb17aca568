// Package sluice holds the version of everything that is built from this repository. The file
// VERSION is its only source: the binaries embed it, the Makefile names the image and the chart by
// it.
package sluice

import (
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

//go:embed VERSION
var versionFile string

// Version is a semantic version without a leading "v". Between two releases it ends in "-dev".
var Version = strings.TrimSpace(versionFile)

// commit is set by the Makefile through -ldflags.
var commit string

// Commit is the commit of the build: the Makefile's, or that of Go's build record, or "unknown".
func Commit() string {
	if commit != "" {
		return commit
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "unknown"
}

// Build is the version, the commit, the Go release and the platform, for people.
func Build() string {
	return fmt.Sprintf("%s (commit %s, %s, %s/%s)", Version, Commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
