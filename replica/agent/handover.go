package agent

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// An agent that ends hands the histories of usage over to the node's next agent: by the server that it reports to, or
// by another one, if the next agent reports there. What was counted needs no handing over: both agents report, and
// nothing counts twice.

// maxHistoryBytes bounds a part of the histories: a server takes no message of several MiB.
const maxHistoryBytes = 1 << 20

// EndMeasuring ends the measuring, so that the next agent alone says what is used, and has the link hand the
// histories over.
func (u *Usage) EndMeasuring() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.left == nil {
		u.left, u.message, u.seconds = historyParts(u.tracker.Export()), nil, nil
		wake(u.changed)
	}
}

func (u *Usage) hasEnded() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left != nil
}

// historyParts makes messages of histories.
func historyParts(all []usage.ContainerHistory) []*agentwire.History {
	parts, size := []*agentwire.History{}, 0
	for _, one := range all {
		more := len(one.CPU) + len(one.Memory) + len(one.Measured)
		if len(parts) == 0 || size+more > maxHistoryBytes {
			parts, size = append(parts, &agentwire.History{}), 0
		}
		last := parts[len(parts)-1]
		last.Containers = append(last.Containers, &agentwire.ContainerHistory{Namespace: one.Container.Namespace,
			Pod: one.Container.Pod, Container: one.Container.Name, Cpu: one.CPU, Memory: one.Memory,
			Measured: one.Measured})
		size += more
	}
	return parts
}

// next returns the next part to hand over; nil: there is none.
func (u *Usage) next() *agentwire.History {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.left) == 0 {
		return nil
	}
	return u.left[0]
}

// handed notes that a part was handed over.
func (u *Usage) handed(part *agentwire.History) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.left) > 0 && u.left[0] == part {
		u.left = u.left[1:]
	}
}

// take takes a part of the former agent's histories.
func (u *Usage) take(h *agentwire.History) error {
	all := make([]usage.ContainerHistory, 0, len(h.Containers))
	for _, c := range h.Containers {
		container := metric.Container{Namespace: c.Namespace, Pod: c.Pod, Name: c.Container}
		all = append(all, usage.ContainerHistory{Container: container, CPU: c.Cpu, Memory: c.Memory, Measured: c.Measured})
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tracker.Import(all, time.Now())
}

// handsOver reports whether there are histories to hand over.
func (l *Link) handsOver() bool { return l.usage != nil && l.usage.next() != nil }

// handOver sends the next part of the histories. A part that no server has passed on is sent again, a second later.
func (s *stream) handOver() {
	u := s.link.usage
	if u == nil || s.handing != nil {
		return
	}
	if s.handing = u.next(); s.handing != nil {
		// If it fails, the stream has ended, which the next turn hears.
		_ = s.grpc.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_History{History: s.handing}})
	}
}

// historyTaken hears the answer to a part.
func (s *stream) historyTaken(taken bool) {
	part := s.handing
	s.handing = nil
	if taken && part != nil {
		s.link.usage.handed(part)
		s.handOver()
	}
}

// handOverAll hands the histories over by a server that the agent does not report to.
func (s *stream) handOverAll() {
	go s.said.receive(s.grpc, s.end)
	for s.handOver(); s.handing != nil; {
		select {
		case <-s.said.come:
			s.hearAll()
		case <-s.said.ended:
			return
		}
	}
	s.finish()
}
