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

// Built says what a binary was built from, and for which platform.
type Built struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"goVersion"`
	Platform string `json:"platform"`
}

// Build describes this binary.
func Build() Built {
	return Built{Version, Commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// String is for people.
func (b Built) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", b.Version, b.Commit, b.Go, b.Platform)
}
