package limit

import (
	"context"
	"time"
)

// Run removes what has lost its place, until ctx ends.
func (b *Registry) Run(ctx context.Context) error {
	idle := time.NewTicker(idleInterval)
	defer idle.Stop()
	again := time.NewTicker(readmitInterval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
			b.runJobs()
		case <-idle.C:
			b.evictIdle()
		case <-again.C:
			b.readmitRejected()
		}
	}
}

// later has Run do something: whoever calls holds locks of the table, or must not wait.
func (b *Registry) enqueue(job func()) {
	b.mu.Lock()
	b.jobs = append(b.jobs, job)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Registry) runJobs() {
	b.mu.Lock()
	jobs := b.jobs
	b.jobs = nil
	b.mu.Unlock()
	for _, job := range jobs {
		job()
	}
}
