package agents

import (
	"sync"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/protobuf/proto"
)

// Series that are defined, and changes that wait for their sender, share three quarters of the room
// of the server. A namespace has a share of it. Strangers, which are senders that are not known, and
// those for which the agent does not speak, have one together, so they take nothing of a
// namespace's. Of that, those of a node have a share: the forged addresses of one node keep no
// stranger of another node out. Frames that come again have the last quarter, and a node its share:
// they are there for seconds, and would else have series rejected for longer.

const (
	// definedBytes is what a definition takes beside its strings, with its place among those of the stream.
	definedBytes = 480
	labelBytes   = 48
	// wireLabelBytes is what a label takes as it was received.
	wireLabelBytes = 120
	// changeBytes is what a change takes beside its bytes on the wire, memberBytes a member and quantileBytes a quantile.
	changeBytes   = 288
	memberBytes   = 48
	quantileBytes = 72
	// leastShrunk is the number of series from which a stream that has lost most of them returns their memory.
	leastShrunk = 1024
)

func (d *definition) bytes() int {
	if d == nil {
		return 0
	}
	bytes := definedBytes + len(d.sample.Name) + len(d.sample.Tags) + len(d.sample.Container) + len(d.sample.External) +
		len(d.object.Resource) + len(d.object.Namespace) + len(d.object.Name)
	for _, l := range d.sample.Fields {
		bytes += labelBytes + len(l.Key) + len(l.Value)
	}
	return bytes
}

// sizeOf is the memory of a change: on the wire a quantile of 0 has two bytes, and an increment twelve.
func sizeOf(c *agentwire.Change) int {
	return changeBytes + proto.Size(c) + memberBytes*len(c.Members) + quantileBytes*len(c.GetHistogram().GetQuantiles())
}

// size is the memory of a frame until it is applied.
func (f *frame) size() (bytes int) {
	for _, c := range f.Changes {
		bytes += sizeOf(c)
	}
	for _, d := range f.Series {
		bytes += definedBytes + proto.Size(d) + wireLabelBytes*len(d.Labels)
	}
	return bytes
}

// share is a part of the room.
type share struct {
	of   string // a namespace, or a node as stream.share names it; empty: strangers
	node string // of the agent that tells of strangers
}

// shareOf is the share from which a series takes.
func (t *stream) shareOf(d *definition) share {
	s := d.sample
	if t.server.parts.Senders == nil {
		return share{of: t.share()}
	}
	if reason, _ := t.sender(&s, d.address); reason != metric.Applied {
		return share{node: t.node}
	}
	return share{of: s.Sender.Pod.Namespace}
}

// share is that of the node: no namespace has such a name.
func (t *stream) share() string { return "/" + t.node }

// strangers are what the strangers of each node have of their share of the room.
type strangers struct {
	mu   sync.Mutex // guards held
	held fair.Shares[string, int64]
}

// take takes n bytes of the room, if a share may have them. Strangers of a node have at most three
// times what is left to all.
func (s *Server) take(of share, n int64) bool {
	if of.of != "" {
		return s.room.Take(of.of, n)
	}
	s.strangers.mu.Lock()
	defer s.strangers.mu.Unlock()
	if n > fair.More(s.strangers.held.Of(of.node), s.room.More("")) || !s.room.Take("", n) {
		return false
	}
	s.strangers.held.Add(of.node, n)
	return true
}

// give gives back what take took.
func (s *Server) give(of share, n int64) {
	s.room.Give(of.of, n)
	if of.of == "" {
		s.strangers.mu.Lock()
		defer s.strangers.mu.Unlock()
		s.strangers.held.Add(of.node, -n)
	}
}

// keep notes a definition, if there is room.
func (t *stream) keep(d *definition) bool {
	t.undefine(d.number)
	d.share = t.shareOf(d)
	if !t.server.take(d.share, int64(d.bytes())) {
		return false
	}
	d.uses = 1
	t.series[d.number] = d
	t.mostSeries = max(t.mostSeries, len(t.series))
	t.defined += d.bytes()
	t.of.held.Add(int64(d.bytes()))
	return true
}

// undefine forgets a definition.
func (t *stream) undefine(number uint32) {
	d := t.series[number]
	if d == nil {
		return
	}
	delete(t.series, number)
	t.defined -= d.bytes()
	t.of.held.Add(-int64(d.bytes()))
	t.server.release(d)
}

// shrink returns the memory of series that are gone: a map keeps its own.
func (t *stream) shrink() {
	if t.mostSeries < leastShrunk || len(t.series) > t.mostSeries/4 {
		return
	}
	fewer := make(map[uint32]*definition, len(t.series))
	for number, d := range t.series {
		fewer[number] = d
	}
	t.series, t.mostSeries = fewer, len(fewer)
}

// withoutRoom is why a definition is not kept.
func (d *definition) withoutRoom() string {
	whose := "namespace " + d.share.of
	switch {
	case d.share.of == "":
		whose = "senders that are not known, or of other nodes than " + d.share.node + ","
	case d.share.of[0] == '/':
		whose = "node " + d.share.of[1:]
	}
	return "agents tell of more series of " + whose + " than there is memory for"
}

// release ends a use of a definition: by its stream, or by a change that waits.
func (s *Server) release(d *definition) {
	if d.uses--; d.uses == 0 {
		s.give(d.share, int64(d.bytes()))
	}
}

// hold takes the room of a change that waits, if there is any.
func (s *Server) hold(w *waiting) bool {
	size := int64(sizeOf(w.change))
	room := size
	if w.series.uses == 0 { // its stream has forgotten it since the change came
		room += int64(w.series.bytes())
	}
	if !s.take(w.series.share, room) {
		return false
	}
	w.series.uses++
	s.waits.Add(size)
	return true
}

// drop gives back what hold took.
func (s *Server) drop(w *waiting) {
	size := int64(sizeOf(w.change))
	s.give(w.series.share, size)
	s.waits.Add(-size)
	s.release(w.series)
}
