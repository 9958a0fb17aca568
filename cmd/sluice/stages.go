package main

import (
	"context"
	"fmt"
	"log/slog"
)

// stage is a part that runs until its context ends, finishes what it has in hand, and returns.
type stage struct {
	name string
	run  func(context.Context) error
}

// ended is a stage that returned.
type ended struct {
	stage int
	err   error
}

// runStages starts all stages and waits until ctx ends or a stage does. Then it stops them one after the
// other, in their order, each only when the one before has finished: the order is that of the data. It
// returns what went wrong first.
func runStages(ctx context.Context, log *slog.Logger, stages []stage) error {
	stops := make([]context.CancelFunc, len(stages))
	finished := make([]chan struct{}, len(stages))
	results := make(chan ended, len(stages))
	for i, s := range stages {
		// A stage outlives ctx until its turn to stop comes.
		own, stop := context.WithCancel(context.WithoutCancel(ctx))
		stops[i], finished[i] = stop, make(chan struct{})
		go func() {
			defer close(finished[i])
			results <- ended{i, s.run(own)}
		}()
	}

	var fault error
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case first := <-results:
		fault = first.err
		if fault == nil {
			fault = fmt.Errorf("%s ended by itself", stages[first.stage].name)
		}
		log.Error("stopping, for a part failed", "part", stages[first.stage].name, "error", fault)
	}
	for i := range stages {
		stops[i]()
		<-finished[i]
	}
	close(results)
	for last := range results {
		if last.err != nil {
			log.Error("a part did not stop well", "part", stages[last.stage].name, "error", last.err)
			if fault == nil {
				fault = last.err
			}
		}
	}
	return fault
}

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
