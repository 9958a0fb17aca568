package operations

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// slowGatherer notes when its gatherings begin, and returns their number as that of families.
type slowGatherer struct {
	takes   time.Duration
	began   []time.Time
	running sync.Mutex
}

func (g *slowGatherer) Gather() ([]*dto.MetricFamily, error) {
	if !g.running.TryLock() {
		return nil, errors.New("two gatherings at once")
	}
	defer g.running.Unlock()
	g.began = append(g.began, time.Now())
	time.Sleep(g.takes)
	return make([]*dto.MetricFamily, len(g.began)), nil
}

// Those who ask for metrics all the time have them gathered with rests between, and nobody gets
// values from before.
func TestGatheringsAreShared(t *testing.T) {
	const askers, length = 4, 10 * time.Second
	for name, c := range map[string]struct {
		takes time.Duration
		most  int
	}{
		"ordinary": {30 * time.Millisecond, 34},
		"large":    {500 * time.Millisecond, 12}, // it rests for 0.3 s
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &slowGatherer{takes: c.takes}
				paced := newPacedGatherer(slow)
				var asking sync.WaitGroup
				end := time.Now().Add(length)
				for i := range askers {
					asking.Go(func() {
						for time.Now().Before(end) {
							time.Sleep(time.Duration(i) * 7 * time.Millisecond) // so that some ask during a gathering
							asked := time.Now()
							families, err := paced.Gather()
							if err != nil {
								t.Error(err)
								return
							}
							if began := slow.began[len(families)-1]; began.Before(asked) {
								t.Errorf("got values of %v before the request", asked.Sub(began))
							}
						}
					})
				}
				asking.Wait()
				if n := len(slow.began); n > c.most+1 || n < c.most-1 {
					t.Errorf("%d gatherings in %v, want %d", n, length, c.most)
				}
			})
		})
	}
}

// A scrape gets the metrics at once, and so does the next one.
func TestAScrapeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paced := newPacedGatherer(&slowGatherer{takes: 50 * time.Millisecond})
		for range 3 {
			began := time.Now()
			if _, err := paced.Gather(); err != nil || time.Since(began) != 50*time.Millisecond {
				t.Errorf("it takes %v: %v", time.Since(began), err)
			}
			time.Sleep(time.Second)
		}
	})
}
