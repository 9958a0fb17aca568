package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// comparison measures servers under one load in turn: in each run Sluice, then each peer, then the
// floors.
type comparison struct {
	sluice *measurement
	peers  []*measurement
	faults []error // of peers
}

func newComparison(cfg Config, load scenarioAtRate, cpus processors, machine *Machine) *comparison {
	c := &comparison{sluice: newMeasurement(cfg, load, cpus, machine)}
	for _, p := range cfg.Peers {
		if p.takes(load.Name) {
			c.peers = append(c.peers, c.sluice.with(p))
		}
	}
	return c
}

// all performs all runs. A peer that fails has no result, and the others go on without it. If
// Sluice or a floor fails, there is no result.
func (c *comparison) all(ctx context.Context) (results []*Result, err error) {
	runs := c.sluice.Runs
	for i := range runs {
		c.sluice.startRun(i)
		if err := c.once(ctx, i); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, &interruption{finished: i, of: runs, besides: besidesTheEnd(err)}
			}
			return nil, errors.Join(append(c.faults, fmt.Errorf("run %d: %w", i+1, err))...)
		}
	}
	results = append(results, c.sluice.result)
	for _, p := range c.peers {
		results = append(results, p.result)
	}
	return results, errors.Join(c.faults...)
}

// startRun sets the title of a run.
func (m *measurement) startRun(i int) {
	m.title = fmt.Sprintf("%s, %s: run %d of %d", scenarioAtRate{m.scenario, m.rate}.title(), m.result.Server, i+1, m.Runs)
}

// once performs one run of every server.
func (c *comparison) once(ctx context.Context, i int) error {
	if c.sluice.scenario.measure != nil {
		figures, err := c.sluice.scenario.measure(ctx, c.sluice)
		return errors.Join(err, c.sluice.result.addFigures(c.sluice.withAims(figures)))
	}
	run, err := c.sluice.measureServer(ctx)
	if err != nil {
		return err
	}
	others, err := c.runPeers(ctx, i)
	if err != nil {
		return err
	}
	c.sluice.startRun(i)
	if run.Floor, err = c.sluice.measureFloor(ctx, gathering); err != nil {
		return err
	}
	if run.Blocking, err = c.sluice.measureFloor(ctx, blocking); err != nil {
		return err
	}
	c.sluice.result.Runs = append(c.sluice.result.Runs, run)
	for i, p := range c.peers {
		others[i].Floor, others[i].Blocking = run.Floor, run.Blocking
		p.result.Runs = append(p.result.Runs, others[i])
	}
	return c.sluice.result.addFigures(c.sluice.withAims(c.sluice.lineFigures(run, others)))
}

// runPeers performs one run of each peer, and drops the peers that fail. It returns an error if ctx
// has ended.
func (c *comparison) runPeers(ctx context.Context, i int) (runs []Run, err error) {
	c.peers = slices.DeleteFunc(c.peers, func(p *measurement) bool {
		if ctx.Err() != nil {
			return false
		}
		p.startRun(i)
		run, failed := p.measurePeer(ctx)
		if failed == nil {
			runs = append(runs, run)
			return false
		}
		if ctx.Err() != nil {
			err = failed
			return false
		}
		c.faults = append(c.faults, fmt.Errorf("%s, run %d: %w", p.peer.Name, i+1, failed))
		return true
	})
	return runs, errors.Join(ctx.Err(), err)
}
