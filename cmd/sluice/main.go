package main

import (
	"context"
	"os"
	"runtime"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/cmd/sluice/client"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/store"
	"github.com/spf13/cobra"
)

func main() {
	// The storage process and the probe of a database are this binary, started again.
	if code, isChild := store.ChildMain(); isChild {
		os.Exit(code)
	}
	os.Exit(run(context.Background(), os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// run executes one command line and returns the process's exit code.
func run(ctx context.Context, args []string, std command.Streams) int {
	return command.Execute(ctx, newSluice(), args, std)
}

func newSluice() *cobra.Command {
	all := append([]*cobra.Command{newServe(), newAgent()}, client.Commands()...)
	return command.NewRoot(versionLine(), append(all, command.NewVersion(sluice.Build()))...)
}

func versionLine() string { return "sluice " + sluice.Build().String() }

// buildInformation is the build section of GET /api/v1/status.
func buildInformation() map[string]string {
	return map[string]string{"version": sluice.Version, "revision": sluice.Commit(), "goVersion": runtime.Version()}
}
