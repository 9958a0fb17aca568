// Package command is what the subcommands have in common: the root with its help, the arguments and flags of
// a command line, and the faults and exit codes of a run. It knows no subcommand.
package command
