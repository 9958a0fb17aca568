package httpserver

import (
	"hash/maphash"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
)

// recorder remembers senders and rejected samples for lists. Without a cluster, senders are the
// addresses of connections.
type recorder struct {
	senders    *record.Senders    // may be nil
	rejections *record.Rejections // may be nil
	// sampled counts rejections of a second, by reason: of a flood, some are recorded.
	sampled [metric.NumReasons]ratelog.Limiter
}

var addressSeed = maphash.MakeSeed()

// pusher is the sender of a request for records.
func (x *Request) pusher() *metric.Sender {
	if s := x.Sender(); s != nil {
		return s
	}
	if x.unchecked.Key == 0 {
		from := x.conn().Remote
		x.unchecked = metric.Sender{Key: maphash.Comparable(addressSeed, from) | metric.LocalKey, Address: from}
	}
	return &x.unchecked
}

// heard records that the sender pushes.
func (x *Request) heard() {
	if r := &x.server.recorder; r.senders != nil {
		r.senders.Heard(x.pusher())
	}
}

// recordRejected records n rejected samples of a metric, whose name may be unknown.
func (x *Request) recordRejected(reason metric.Reason, name []byte, why string, n int) {
	r := &x.server.recorder
	if r.rejections == nil || int(reason) >= len(r.sampled) {
		return
	}
	weight := record.Weight(r.sampled[reason].Allow())
	if weight == 0 {
		return
	}
	r.rejections.Add(&record.Sample{Receiver: "http", Sender: x.pusher(), Reason: reason, Metric: name,
		Why: func() string { return why }}, weight*uint64(n))
}

// CountRejected counts n rejected samples of a metric, whose name may be empty.
func (x *Request) CountRejected(reason metric.Reason, name, why string, n int) {
	for range n {
		x.server.account.Count(reason)
	}
	if n > 0 {
		x.recordRejected(reason, []byte(name), why, n)
	}
}
