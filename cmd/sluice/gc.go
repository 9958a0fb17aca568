package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// collectorPercent is GOGC where the environment does not say otherwise. What lives long, the table, lies outside the heap or
// without pointers in it, and hardly anything is allocated a line: a small target costs no time that can be measured.
const collectorPercent = 25

// ballast is never touched, so it takes addresses and no memory. It counts as heap: a server that holds little, and whose pushes
// over HTTP allocate, is then collected every 16 MiB and not every one or two. One that holds much is collected seldom anyway, and
// does without: for the ballast's sake it would keep 16 MiB more of garbage.
var ballast []byte

const (
	ballastBytes = 64 << 20
	ballastUntil = 4 * ballastBytes // of heap, with itself
	ballastLook  = 10 * time.Second
)

// tuneCollector comes after the restore, whose heap grows from nothing: with a small target it would be collected over and over.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		ballast = make([]byte, ballastBytes)
		runtime.KeepAlive(ballast) // a variable of the package is kept; this tells who looks for unused ones
		debug.SetGCPercent(collectorPercent)
		time.AfterFunc(ballastLook, lookAtBallast)
	}
}

// lookAtBallast drops the ballast where the heap is large, or looks again later.
func lookAtBallast() {
	if !dropBallast() {
		time.AfterFunc(ballastLook, lookAtBallast)
	}
}

// dropBallast reports whether there is none any more. It does not come back: who has held much may do so again.
func dropBallast() bool {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(live); live[0].Value.Uint64() >= ballastUntil {
		ballast = nil
	}
	return ballast == nil
}
