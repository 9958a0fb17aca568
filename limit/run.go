package limit

import (
	"context"
	"time"
)

// Run removes what has lost its place, until ctx ends.
func (b *Registry) Run(ctx context.Context) error {
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	again := time.NewTicker(askAgainEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.woken:
			b.work()
		case <-idle.C:
			b.yieldIdle()
		case <-again.C:
			b.askAgain()
		}
	}
}

// later has Run do something: whoever calls holds locks of the table, or must not wait.
func (b *Registry) later(job func()) {
	b.mu.Lock()
	b.jobs = append(b.jobs, job)
	b.mu.Unlock()
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

func (b *Registry) work() {
	b.mu.Lock()
	jobs := b.jobs
	b.jobs = nil
	b.mu.Unlock()
	for _, job := range jobs {
		job()
	}
}
