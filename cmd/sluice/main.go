package main

import (
	"context"
	"os"

	"github.com/sluice-metrics/sluice/store"
)

func main() {
	// The store opens a database that it does not trust yet in a process of its own: this one, started again.
	if code, isTrial := store.TrialMain(); isTrial {
		os.Exit(code)
	}
	os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
