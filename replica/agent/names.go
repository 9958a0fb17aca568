package agent

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// names are those of the containers that a source knows by their IDs alone. The server says them: it knows the pods of
// the cluster. A pod's sandbox has none.
type names struct {
	known map[string]name   // by container ID
	asks  map[string]asking // of those that have no name
	order uint64
}

type name struct {
	metric.Container
	order uint64 // greater than that of a name which came before
}

// asking says when a name is asked for next, and how long after that again.
type asking struct {
	next time.Time
	wait time.Duration
}

// lastWait bounds the time between two questions for one name: it doubles from a second on.
const lastWait = time.Minute

func newNames() names { return names{map[string]name{}, map[string]asking{}, 0} }

// add adds to a page the readings of the containers whose names are known. Of two containers of one name, as while a
// pod ends by force, the one counts that was named last.
func (n *names) add(page *metric.UsagePage, now time.Time) {
	taken := map[metric.Container]uint64{}
	for id, r := range page.Unnamed {
		named, known := n.known[id]
		switch {
		case known && named.order > taken[named.Container]:
			taken[named.Container], page.Readings[named.Container] = named.order, r
		case !known && n.asks[id].next.IsZero():
			n.asks[id] = asking{now, time.Second}
		}
	}
	for id := range n.known {
		if _, there := page.Unnamed[id]; !there {
			delete(n.known, id)
		}
	}
	for id := range n.asks {
		if _, there := page.Unnamed[id]; !there {
			delete(n.asks, id)
		}
	}
}

// due lists the containers whose names are to be asked for now.
func (n *names) due(now time.Time) (ids []string) {
	for id, a := range n.asks {
		if !a.next.After(now) {
			ids = append(ids, id)
			n.asks[id] = asking{now.Add(a.wait), min(2*a.wait, lastWait)}
		}
	}
	return ids
}

func (n *names) take(all []*agentwire.ContainerName) {
	for _, c := range all {
		if _, asked := n.asks[c.Id]; asked && c.Pod != "" {
			delete(n.asks, c.Id)
			n.order++
			n.known[c.Id] = name{metric.Container{Namespace: c.Namespace, Pod: c.Pod, Name: c.Container}, n.order}
		}
	}
}

// named takes the names that a server says.
func (u *Usage) named(m *agentwire.Names) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.names.take(m.Containers)
}

// askAgain has all missing names asked for at once: of another server.
func (u *Usage) askAgain() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.names.asks {
		u.names.asks[id] = asking{time.Now(), time.Second}
	}
}

// unnamed lists the containers whose names the server is to be asked for.
func (u *Usage) unnamed() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.names.due(time.Now())
}

// warnOfNames says that there are containers which the server does not name.
func (u *Usage) warnOfNames() {
	u.mu.Lock()
	n := len(u.names.asks)
	u.mu.Unlock()
	if n == 0 {
		return
	}
	if suppressed, ok := u.faults.Allow(); ok {
		u.log.Warn("the server does not name containers, so their usage is not known: it needs api-resource-metrics, and to be as new as the agent",
			"containers", n, "suppressed", suppressed)
	}
}

// tellUsage tells the server what is used, and asks for names. If it fails, the stream has ended, which the next turn hears.
func (s *stream) tellUsage() {
	u := s.link.usage
	message, seconds := u.newest(s.told)
	if message != nil {
		s.told = message.Number
		_ = s.grpc.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Usage{Usage: message}})
	}
	if !s.names {
		u.warnOfNames()
		return
	}
	if seconds != nil {
		_ = s.grpc.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Seconds{Seconds: seconds}})
	}
	if ids := u.unnamed(); len(ids) > 0 {
		_ = s.grpc.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Unnamed{Unnamed: &agentwire.Unnamed{Containers: ids}}})
	}
}
