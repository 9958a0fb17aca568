package client

import "github.com/spf13/cobra"

// Commands are the subcommands that ask a server.
func Commands() []*cobra.Command {
	return []*cobra.Command{newPush(), newGet(), newList(), newTop(), newExplain(), newRule()}
}
