package pending

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	// maxProbes bounds the lines of unchanged senders that one round retries in vain. The order of
	// senders is random, so each has its turn.
	maxProbes = 20_000
	// retryBatch is the number of samples between two batch boundaries.
	retryBatch = 256
)

// retrier retries pending samples, round by round. It belongs to Run's goroutine.
type retrier struct {
	pending *Buffer
	applier Applier
	last    bool // samples that stay pending in this round are rejected

	round     uint64
	now       time.Duration
	lastBlind time.Duration // when the API server was last away
	blind     string        // why the API server is away; empty: it is not
	wall      time.Time
	probes    int
	tried     int
	keys      []senderKey
	made      unpacked
}

// all retries all samples.
func (r *retrier) all() {
	if _, senders := r.pending.room.held(); senders == 0 {
		return
	}
	r.begin()
	for i := range r.pending.shards {
		shard := &r.pending.shards[i]
		shard.mu.Lock()
		r.keys = slices.AppendSeq(r.keys[:0], maps.Keys(shard.senders))
		shard.mu.Unlock()
		for _, key := range r.keys {
			r.try(key)
		}
	}
	r.end()
}

// some retries the samples of some senders.
func (r *retrier) some(keys map[senderKey]struct{}) {
	r.begin()
	for key := range keys {
		r.try(key)
	}
	r.end()
}

func (r *retrier) begin() {
	r.round++
	r.wall = time.Now()
	r.now, r.probes, r.tried = r.wall.Sub(r.pending.start), maxProbes, 0
	r.look()
	r.applier.Online()
}

// look checks whether senders can become known.
func (r *retrier) look() {
	r.blind = ""
	if r.pending.parts.Blind == nil {
		return
	}
	if since, why, blind := r.pending.parts.Blind(); blind {
		r.lastBlind = r.now
		r.blind = fmt.Sprintf("the API server has not answered since %s: %s", since.UTC().Format(time.RFC3339), why)
	}
}

// due reports whether a sample that arrived at a time has reached its maximum age.
func (r *retrier) due(at time.Duration) bool {
	at = at.Truncate(time.Second)
	return r.last || r.now-max(at, r.lastBlind) >= r.pending.config.MaxAge || r.now-at >= r.pending.config.MaxBlindAge
}

func (r *retrier) end() {
	r.applier.Quiesce()
	r.applier.Offline()
}

// try takes a sender out, retries its samples, and puts the rest back.
func (r *retrier) try(key senderKey) {
	p, shard := r.pending, r.pending.shard(key)
	shard.mu.Lock()
	h := shard.senders[key]
	if h == nil {
		shard.mu.Unlock()
		return
	}
	delete(shard.senders, key)
	shard.trying = h
	shard.mu.Unlock()
	settled, left := r.replay(h)
	if settled && left {
		rest := newHeldSender(&h.sender)
		rest.unnamed = h.unnamed
		rest.absorb(h)
		p.room.add(h.sender.Namespace(), rest.bytes-h.bytes, 0)
		h = rest
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.trying = nil
	newer := shard.senders[key] // arrived meanwhile
	if newer != nil {
		newer.trying = 0
	}
	if !left {
		p.release(h)
		return
	}
	if newer != nil {
		before := h.bytes + newer.bytes
		h.absorb(newer)
		p.room.add(h.sender.Namespace(), h.bytes-before, -1)
	}
	shard.senders[key] = h
}

// whose returns the sender as it is known now, and whether that has changed. A sender that was
// known when it sent a sample stays what it was then.
func (r *retrier) currentSender(h *heldSender) (who *metric.Sender, news bool) {
	if h.unnamed {
		return nil, false
	}
	if !h.sender.Known && h.sender.Address.IsValid() {
		if found := r.pending.parts.Senders.Sender(h.sender.Address); found != nil {
			return found, true
		}
	}
	return &h.sender, false
}

// replay retries all samples of a sender. It reports whether some were settled and whether some are
// left.
func (r *retrier) replay(h *heldSender) (settled, left bool) {
	who, news := r.currentSender(h)
	h.sort()
	rejected := 0
	for i := range h.cells {
		c := &h.cells[i]
		line := &h.lines[c.line]
		due := r.due(c.at)
		reason := metric.Pending
		if line.round != r.round && (news || due || r.probes > 0) {
			if reason = r.apply(line, c, who); reason == metric.Pending {
				line.round = r.round
				r.probes--
			}
		}
		if reason == metric.Pending && due {
			reason = metric.Identity
			rejected += int(c.n)
		}
		if reason == metric.Pending {
			left = true
			continue
		}
		line.account.Settle(reason, uint64(c.n))
		c.n, settled = 0, true
	}
	if rejected > 0 {
		r.rejectExpired(h, rejected)
	}
	return settled, left
}

// apply retries one cell.
func (r *retrier) apply(line *heldLine, c *cell, who *metric.Sender) metric.Reason {
	if r.tried++; r.tried%retryBatch == 0 {
		r.applier.Quiesce()
	}
	r.made.read(line.packed)
	s := &r.made.sample
	s.Whole, s.Fraction, s.Sender = c.whole, c.fraction, who
	s.Arrived = r.wall.Add(c.at - r.now).UnixNano()
	reason := r.applier.Apply(s)
	if reason != metric.Applied && reason != metric.Pending && reason != metric.Ignored {
		r.pending.logRejected(s, reason)
	}
	return reason
}

// recordedAs is the receiver of rejected pending samples in lists: which one received them is not
// kept.
const recordedAs = "pending"

// logRejected logs a pending sample that was rejected.
func (p *Buffer) logRejected(s *metric.Sample, reason metric.Reason) {
	suppressed, ok := p.rejectLog[reason].Allow()
	why := func() string {
		if p.parts.Explain == nil {
			return ""
		}
		return p.parts.Explain(reason, s)
	}
	from := s.Sender
	if from.Follows(time.Unix(0, s.Arrived)) {
		from = nil // another pod's samples are not listed for the pod that has its address now
	}
	if weight := ratelog.Weight(suppressed, ok); weight > 0 {
		p.parts.Rejections.Add(&record.Sample{Receiver: recordedAs, Sender: from, Reason: reason,
			Metric: s.Name, Why: why}, weight)
	}
	if !ok {
		return
	}
	p.parts.Logger.Warn("pending sample rejected", "reason", reason.String(), "why", metric.MaskAbout(why(), s.Name, 0), "metric",
		metric.Excerpt(s.Name),
		"from", s.Sender.String(), "suppressed", suppressed)
}

const expiredRemedy = "avoid source NAT and proxies between pod and Sluice, or add the address to trusted-forwarders"

// whyExpired says why samples were rejected whose sender did not become known.
func (r *retrier) whyExpired() string {
	if r.blind != "" {
		return "the sender did not become known: " + r.blind
	}
	return fmt.Sprintf("the sender did not become known within %s: %s", r.pending.config.MaxAge, expiredRemedy)
}

// rejectExpired counts and logs samples whose sender did not become known in time.
func (r *retrier) rejectExpired(h *heldSender, samples int) {
	p := r.pending
	p.expired.Add(uint64(samples))
	from := &h.sender
	if h.unnamed {
		from = nil
	}
	p.parts.Rejections.Add(&record.Sample{Receiver: recordedAs, Sender: from, Reason: metric.Identity, Why: r.whyExpired},
		uint64(samples))
	suppressed, ok := p.expiredLog.Allow()
	if !ok {
		return
	}
	said := []any{"from", from.String(), "samples", samples}
	if r.blind != "" {
		said = append(said, "why", r.blind)
	} else {
		said = append(said, "held", p.config.MaxAge, "remedy", expiredRemedy)
	}
	p.parts.Logger.Warn("pending samples rejected: their sender did not become known",
		append(said, "suppressed", suppressed)...)
}
