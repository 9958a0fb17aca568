package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-metrics/sluice/internal/footprint"
	"github.com/sluice-metrics/sluice/store"
)

// run receives and serves until ctx ends and the shutdown delay is over, or a stage fails. Then it
// stops in the order of the data.
func (p *dataPath) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.progress.stop)()
	ctx, release := afterDelay(ctx, p.cfg.shutdownDelay, p.log)
	defer release()
	err := runStages(ctx, p.log, p.stages())
	if err == nil {
		p.log.Info("stopped")
	}
	return err
}

// stages lists the running parts in the order in which they stop, which is that of the data.
func (p *dataPath) stages() (all []stage) {
	c, r := &p.cluster, &p.replication
	for _, part := range []struct {
		on  bool
		run stage
	}{
		{true, stage{"statsd", p.receive}},
		{true, stage{"push", p.push.Run}},
		{p.scraper != nil, stage{"scrape", p.scraper.Run}},
		{p.agents != nil, stage{"agents", p.agents.Run}},
		{p.relay != nil, stage{"relay", p.relay.Run}},
		{p.otlp != nil, stage{"export", p.otlp.Run}},
		{c.view != nil, stage{"pending", c.pending.Run}},
		{true, stage{"groups", p.groups.Run}},
		{true, stage{"table", p.table.Run}},
		{true, stage{"store", p.runStore}},
		// The store's last flush is handed over, then the connections end.
		{r.bus != nil, stage{"replicas", r.replica.Run}},
		{r.bus != nil, stage{"bus", r.bus.Run}},
		{true, stage{"api", p.api.Run}},
		{true, stage{"rules", p.rules.Run}},
		{p.routes != nil, stage{"routes", p.routes.Run}},
		{p.keda != nil, stage{"keda", p.keda.Run}},
		{c.waker != nil, stage{"wake", c.waker.Run}},
		{c.nudger != nil, stage{"instant", c.nudger.Run}},
		{c.taints != nil, stage{"taints", c.taints.Run}},
		{c.view != nil, stage{"limits", c.limits.Run}},
		{c.view != nil, stage{"autoscalers", c.autoscalers.Run}},
		{c.view != nil, stage{"cluster", p.runCluster}},
		{p.console != nil, stage{"console", p.console.Run}},
		{true, stage{"footprint", footprint.Run}},
		{true, stage{"operations", p.operations.run}},
	} {
		if part.on {
			all = append(all, part.run)
		}
	}
	return all
}

// receive runs the receivers of StatsD, which are the first that stop.
func (p *dataPath) receive(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.progress.deafen)()
	return p.statsd.Run(ctx)
}

// closeTimeout bounds the closing of the database.
const closeTimeout = 10 * time.Second

// runStore runs the store and closes it. It waits for a stalled disk once only.
func (p *dataPath) runStore(ctx context.Context) error {
	err := p.store.Run(ctx)
	if errors.Is(err, store.ErrStalled) {
		ended, end := context.WithCancel(context.Background())
		end()
		_ = p.store.Close(ended) // err says more
		return err
	}
	return errors.Join(err, p.closeStore())
}

func (p *dataPath) closeStore() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return p.store.Close(ctx)
}

// abandon closes the parts that were made before a step failed.
func (p *dataPath) abandon() error {
	ended, end := context.WithCancel(context.Background())
	end()
	var faults []error
	if p.statsd != nil {
		p.statsd.Close()
	}
	if p.push != nil {
		faults = append(faults, p.push.Run(ended))
	}
	if p.scraper != nil {
		faults = append(faults, p.scraper.Run(ended))
	}
	if p.store != nil {
		faults = append(faults, p.closeStore())
	}
	if p.replication.bus != nil {
		faults = append(faults, p.replication.bus.Run(ended))
	}
	if p.agents != nil {
		p.agents.Close()
	}
	if p.keda != nil {
		p.keda.Close()
	}
	if p.console != nil {
		faults = append(faults, p.console.Close())
	}
	if p.operations != nil {
		faults = append(faults, p.operations.run(ended))
	}
	return errors.Join(faults...)
}

// stage is a part that runs until its context ends, finishes its work in progress, and returns.
type stage struct {
	name string
	run  func(context.Context) error
}

// ended is a stage that returned.
type ended struct {
	stage int
	err   error
}

// runStages starts all stages and waits until ctx or a stage ends. Then it stops them in their
// order, each once the one before has finished. It returns the first error.
func runStages(ctx context.Context, log *slog.Logger, stages []stage) error {
	stops := make([]context.CancelFunc, len(stages))
	finished := make([]chan struct{}, len(stages))
	results := make(chan ended, len(stages))
	for i, s := range stages {
		// A stage outlives ctx until runStages stops it.
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
		log.Error("stopping because a part failed", "part", stages[first.stage].name, "error", fault)
	}
	for i := range stages {
		stops[i]()
		<-finished[i]
	}
	close(results)
	for last := range results {
		if last.err != nil {
			log.Error("a part failed while it stopped", "part", stages[last.stage].name, "error", last.err)
			if fault == nil {
				fault = last.err
			}
		}
	}
	return fault
}

// earlyStage is a stage that already runs while the others are made.
type earlyStage struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // published by the closing of done
}

// startEarly starts run now. It lasts until the method run of the stage is stopped, even if ctx
// ends before.
func startEarly(ctx context.Context, run func(context.Context) error) *earlyStage {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &earlyStage{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.err = run(own)
	}()
	return e
}

// run is the stage's own run: it waits until ctx or the work ends, then until the work has
// finished.
func (e *earlyStage) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-e.done:
	}
	e.stop()
	<-e.done
	return e.err
}
