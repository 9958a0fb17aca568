package main

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/limit"
	"github.com/sluice-metrics/sluice/replica"
)

// originShadow is a shadow for package replica.
type originShadow struct {
	*aggregate.Shadow
	list   *shadowList
	counts *limit.Origin // nil: standalone
}

// newShadow returns an empty copy of another origin's table. Its series count for the limits, and
// their pods have pushed.
func (p *dataPath) newShadow(name string) replica.Shadow {
	s := originShadow{Shadow: aggregate.NewShadow(p.cfg.table, p.log), list: p.replication.shadows}
	s.SetOwn(p.table)
	if c := &p.cluster; c.view != nil {
		s.counts = c.limits.Origin(name, s.Shadow)
		s.SetAdmission(s.counts)
		s.SetObserver(c.workloads.Foreign())
	}
	s.list.add(s.Shadow)
	return s
}

// End implements replica.Shadow.
func (s originShadow) End() {
	s.Shadow.End()
	s.list.remove(s.Shadow)
	if s.counts != nil {
		s.counts.Close()
	}
}

// shadowList holds all shadows of the process, also those that readers don't see yet.
type shadowList struct {
	mu  sync.Mutex // held by changes
	all atomic.Pointer[[]*aggregate.Shadow]
}

func (l *shadowList) add(s *aggregate.Shadow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append(slices.Clone(l.get()), s)
	l.all.Store(&all)
}

func (l *shadowList) remove(s *aggregate.Shadow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(l.get()), func(shadow *aggregate.Shadow) bool { return shadow == s })
	l.all.Store(&all)
}

func (l *shadowList) get() []*aggregate.Shadow {
	if all := l.all.Load(); all != nil {
		return *all
	}
	return nil
}

// usage is the part of max-series and max-bytes that the shadows take.
func (l *shadowList) usage() (series int, bytes int64) {
	for _, s := range l.get() {
		t := s.Table()
		series += t.Series()
		bytes += t.UsedBytes()
	}
	return series, bytes
}

// replaySeries records the series of pods that were not known at the birth. l may be nil.
func (l *shadowList) replaySeries() {
	if l == nil {
		return
	}
	for _, s := range l.get() {
		s.Table().ReplaySeries("pods")
	}
}
