package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// collectorPercent is GOGC where the environment does not say otherwise. What lives long, the table, lies outside the heap or
// without pointers in it, and hardly anything is allocated a line: a small target costs no time that can be measured.
const collectorPercent = 25

// ballast is never touched, so it takes addresses and no memory. It counts as heap: a server that holds little, and whose pushes
// over HTTP allocate, is then collected every 16 MiB and not every one or two.
var ballast []byte

const ballastBytes = 64 << 20

// tuneCollector comes after the restore, whose heap grows from nothing: with a small target it would be collected over and over.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		ballast = make([]byte, ballastBytes)
		runtime.KeepAlive(ballast) // a variable of the package is kept; this tells who looks for unused ones
		debug.SetGCPercent(collectorPercent)
	}
}
