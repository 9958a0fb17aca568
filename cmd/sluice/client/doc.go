// Package client has the subcommands that ask or push to a server: push, get, list, explain and rule. They
// reach a server by its APIs alone, as any other client does, with the user's own rights. commands.go lists
// them, api.go finds the server and reads its answers.
package client
