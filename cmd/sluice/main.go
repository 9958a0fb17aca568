package main

import (
	"context"
	"os"

	"github.com/sluice-metrics/sluice/store"
)

func main() {
	// The store keeps its database in a process of its own, and tries one that it does not trust yet in another: this one,
	// started again.
	if code, isChild := store.ChildMain(); isChild {
		os.Exit(code)
	}
	os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
