package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal returns a context that ends with the first SIGTERM, SIGINT or SIGHUP. After that a second SIGTERM or
// SIGINT ends the process at once. A second SIGHUP does not: who closes a terminal sends it twice, once by the
// kernel and once by the shell. A SIGHUP that is ignored, as under nohup, stays ignored.
//
// A write to stderr or stdout whose reader has gone fails from then on and ends nothing: without a listener for
// SIGPIPE, Go would end the process.
func untilSignal(parent context.Context) (ctx context.Context, release func()) {
	hangUp, brokenPipe := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(brokenPipe, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangUp, syscall.SIGHUP)
	}
	parent, cancel := context.WithCancel(parent)
	ctx, stop := signal.NotifyContext(parent, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // from then on the system's own way with these signals holds
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		select {
		case <-hangUp:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-listened
		signal.Stop(hangUp)
		signal.Stop(brokenPipe)
	}
}
