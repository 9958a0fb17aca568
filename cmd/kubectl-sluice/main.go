// kubectl-sluice is the plugin of kubectl: the subcommands of sluice that ask a server, without the server.
package main

import (
	"context"
	"os"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/cmd/sluice/client"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

func main() {
	build := sluice.Build()
	root := command.NewRoot("sluice "+build.String(), append(client.Commands(), command.NewVersion(build))...)
	os.Exit(command.Execute(context.Background(), root, os.Args[1:],
		command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
