package main

import (
	"context"
	"os"

	"github.com/sluice-metrics/sluice/store"
)

func main() {
	// The storage process and the probe of a database are this binary, started again.
	if code, isChild := store.ChildMain(); isChild {
		os.Exit(code)
	}
	os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
