package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// collectorPercent is GOGC, unless the environment sets it. The long-lived table is outside the
// heap, or without pointers in it, and a line allocates hardly anything: a low target costs no
// measurable time.
const collectorPercent = 25

// ballast is never touched, so it takes address space and no memory. It counts as heap: a small
// server whose HTTP pushes allocate then collects every 16 MiB instead of every one or two. A large
// server collects rarely anyway; with the ballast it would keep 16 MiB more garbage.
var ballast []byte

const (
	ballastBytes = 64 << 20
	ballastUntil = 4 * ballastBytes // of heap, with the ballast
	ballastLook  = 10 * time.Second
)

// tuneCollector is called after the restore: its heap grows from nothing, and a low target would
// collect it over and over.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		ballast = make([]byte, ballastBytes)
		runtime.KeepAlive(ballast) // for linters: a variable that is only written counts as unused
		debug.SetGCPercent(collectorPercent)
		time.AfterFunc(ballastLook, lookAtBallast)
	}
}

// lookAtBallast drops the ballast if the heap is large, or checks again later.
func lookAtBallast() {
	if !dropBallast() {
		time.AfterFunc(ballastLook, lookAtBallast)
	}
}

// dropBallast drops the ballast from a large heap, for good, and reports whether it is gone.
func dropBallast() bool {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(live); live[0].Value.Uint64() >= ballastUntil {
		ballast = nil
	}
	return ballast == nil
}
