package replica

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// TestSimulationOfRates: constant streams read constant at every replica, whatever happens to the
// fabric and to the processes, for as long as an origin's windows stand.
func TestSimulationOfRates(t *testing.T) {
	eachSeed(t, 20, simulateRates)
}

// stream is a constant stream of 50/s to a process. While that is down, nothing is pushed.
type stream struct {
	*process
	down int // ticks until it is back
	up   int // ticks in which it received
	lost []loss
}

// loss is what a process received and lost in a kill.
type loss struct {
	up    int
	units int64
}

func (s *stream) kill(down int) {
	s.lost = append(s.lost, loss{s.up, s.process.lost("stream")})
	s.process.kill()
	s.down = down
}

// reach are the ticks of the window, and those by which what a process hears may be late.
const reach = 100 + 15

// lowest is the lowest rate that a reader may see that has heard nothing for lag ticks: 46 if its window has one
// kill. If it has more, the newest may lower the rate as much, for as long as its tick is half one of before and
// half one of after; the others lower it by what they lost.
func (s *stream) lowest(lag int) float64 {
	sum, newest := int64(0), int64(0)
	for _, l := range s.lost {
		if s.up-l.up <= reach+lag {
			sum, newest = sum+l.units, l.units
		}
	}
	return 46 - float64(sum-newest)/10
}

// lag is for how many ticks a process has heard nothing of the stream. A shadow that lacks a part of a flush
// stands still, for patience at most, and reads as of then.
func (s *stream) lag(p *process) int {
	for _, origin := range p.replica.Origins() {
		if origin.Name == s.name {
			return int(origin.Lag / stepEvery)
		}
	}
	return 0
}

func simulateRates(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	f := newFabric(rng, time.Now)
	all := startProcesses(t, f, replicated(10*time.Second, time.Minute), 2+rng.IntN(2))
	f.drop, f.double, f.late = rng.Float64()*0.2, rng.Float64()*0.2, rng.Float64()*0.2
	f.delay = time.Duration(1+rng.IntN(1000)) * time.Millisecond
	var streams []*stream
	for _, p := range all {
		streams = append(streams, &stream{process: p})
	}
	for tick := range 900 {
		for i, s := range streams {
			if s.replica != nil {
				s.push(simulated{name: "stream", pod: i, kind: metric.Counter, op: metric.Add, whole: 5})
				s.up++
			} else if s.down--; s.down == 0 {
				startProcess(t, f, s.process)
			}
		}
		if s := streams[rng.IntN(len(all))]; tick > 200 && s.replica != nil && rng.IntN(150) == 0 {
			s.kill(10 + rng.IntN(300))
		}
		passTables(f, all, tick)
		if tick < 200 {
			continue
		}
		for _, p := range all {
			if p.replica == nil {
				continue
			}
			if ready, _ := p.replica.Ready(); !ready {
				continue
			}
			rates := p.read("stream:rate:10s")
			for i, s := range streams {
				rate, there := rates[podName(i)]
				if !there {
					continue // p has started while the origin was away
				}
				lag := s.lag(p)
				filled := tick-lag >= reach // a window of the stream was heard
				if v := rate.Float64(); v < s.lowest(lag) && filled || v > 55 {
					t.Fatalf("tick %d: %s reads %v for %s, want 50, at least %v; %+v",
						tick, p.name, v, podName(i), s.lowest(lag), p.replica.Origins())
				}
			}
		}
	}
}
