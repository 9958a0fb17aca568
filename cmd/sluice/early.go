package main

import "context"

// early is a stage that has to run before the others are made.
type early struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // settled when done is closed
}

// startEarly starts run now; it lasts until the run of the early is stopped, whatever becomes of ctx.
func startEarly(ctx context.Context, run func(context.Context) error) *early {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &early{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.err = run(own)
	}()
	return e
}

// run is the stage: it lasts until ctx ends or the work does, and then until the work has finished.
func (e *early) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-e.done:
	}
	e.stop()
	<-e.done
	return e.err
}
