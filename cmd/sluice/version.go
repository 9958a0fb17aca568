package main

import (
	"runtime"

	"github.com/sluice-metrics/sluice"
)

func versionLine() string { return "sluice " + sluice.Build() }

// buildInformation is the build section of GET /api/v1/status.
func buildInformation() map[string]string {
	return map[string]string{"version": sluice.Version, "revision": sluice.Commit(), "goVersion": runtime.Version()}
}
