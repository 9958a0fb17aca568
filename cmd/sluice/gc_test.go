package main

import (
	"runtime"
	"testing"
)

// A server that holds much does without ballast.
func TestBallastIsOfSmallHeaps(t *testing.T) {
	before := ballast
	defer func() { ballast = before }()
	ballast = make([]byte, ballastBytes)
	runtime.GC()
	if dropBallast() {
		t.Error("a small heap has lost it")
	}
	large := make([]byte, ballastUntil) // never touched: it takes no memory
	runtime.GC()
	if !dropBallast() {
		t.Errorf("a heap of %d MiB has it", ballastUntil>>20)
	}
	runtime.KeepAlive(large)
}
