package receiver

import (
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const (
	// maxProbes bounds the lines of unchanged senders that one round tries for nothing. Which senders come first
	// is random, so each gets its turn.
	maxProbes = 20_000
	// retrialBatch is how many samples are tried between two boundaries that the table can use.
	retrialBatch = 256
)

// retrial tries held samples again, round by round. Run's goroutine alone has it.
type retrial struct {
	pending *Pending
	applier Applier
	last    bool // what is pending after this round is refused

	round  uint64
	now    time.Duration
	sight  time.Duration // when the cluster could not be seen last
	blind  string        // why it cannot be seen; empty: it can
	wall   time.Time
	probes int
	tried  int
	keys   []senderKey
	made   unpacked
}

// all tries everything that is held.
func (r *retrial) all() {
	if r.pending.senders.Load() == 0 {
		return
	}
	r.begin()
	for i := range r.pending.shards {
		shard := &r.pending.shards[i]
		r.keys = r.keys[:0]
		shard.mu.Lock()
		for key := range shard.senders {
			r.keys = append(r.keys, key)
		}
		shard.mu.Unlock()
		for _, key := range r.keys {
			r.try(key)
		}
	}
	r.end()
}

// some tries what is held of some senders.
func (r *retrial) some(keys map[senderKey]struct{}) {
	r.begin()
	for key := range keys {
		r.try(key)
	}
	r.end()
}

func (r *retrial) begin() {
	r.round++
	r.wall = time.Now()
	r.now, r.probes, r.tried = r.wall.Sub(r.pending.start), maxProbes, 0
	r.look()
	r.applier.Online()
}

// look sees whether senders can become known.
func (r *retrial) look() {
	r.blind = ""
	if r.pending.parts.Blind == nil {
		return
	}
	if since, why, blind := r.pending.parts.Blind(); blind {
		r.sight = r.now
		r.blind = fmt.Sprintf("the API server has not answered since %s: %s", since.UTC().Format(time.RFC3339), why)
	}
}

// due reports whether a sample that came at a time was held for as long as may be.
func (r *retrial) due(at time.Duration) bool {
	at = at.Truncate(time.Second)
	return r.last || r.now-max(at, r.sight) >= r.pending.config.MaxAge || r.now-at >= r.pending.config.MaxBlindAge
}

func (r *retrial) end() {
	r.applier.Quiesce()
	r.applier.Offline()
}

// try takes a sender out, tries what is held of it, and puts back what is left.
func (r *retrial) try(key senderKey) {
	p, shard := r.pending, r.pending.shard(key)
	shard.mu.Lock()
	h := shard.senders[key]
	if h == nil {
		shard.mu.Unlock()
		return
	}
	delete(shard.senders, key)
	shard.trying = &key
	shard.mu.Unlock()
	settled, left := r.replay(h)
	if settled && left {
		rest := newHeldSender(&h.sender)
		rest.unnamed = h.unnamed
		rest.absorb(h)
		p.bytes.Add(rest.bytes - h.bytes)
		h = rest
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.trying = nil
	if !left {
		p.release(h)
		return
	}
	if newer := shard.senders[key]; newer != nil { // came meanwhile
		before := h.bytes + newer.bytes
		h.absorb(newer)
		p.bytes.Add(h.bytes - before)
		p.senders.Add(-1)
	}
	shard.senders[key] = h
}

// whose is the sender as it is known now, and whether that is news. A sender that was known when it spoke is judged as
// what it was then.
func (r *retrial) whose(h *heldSender) (who *metric.Sender, news bool) {
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

// replay tries all that is held of a sender, and reports whether some of it was settled and some is left.
func (r *retrial) replay(h *heldSender) (settled, left bool) {
	who, news := r.whose(h)
	h.sort()
	refused := 0
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
			refused += int(c.n)
		}
		if reason == metric.Pending {
			left = true
			continue
		}
		line.account.settle(reason, uint64(c.n))
		c.n, settled = 0, true
	}
	if refused > 0 {
		r.refuse(h, refused)
	}
	return settled, left
}

// apply tries one cell.
func (r *retrial) apply(line *heldLine, c *cell, who *metric.Sender) metric.Reason {
	if r.tried++; r.tried%retrialBatch == 0 {
		r.applier.Quiesce()
	}
	r.made.read(line.packed)
	s := &r.made.sample
	s.Whole, s.Fraction, s.Sender = c.whole, c.fraction, who
	s.Arrived = r.wall.Add(c.at - r.now).UnixNano()
	reason := r.applier.Apply(s)
	if reason != metric.Applied && reason != metric.Pending && reason != metric.Ignored {
		r.pending.complain(s, reason)
	}
	return reason
}

// complain says that a held sample was refused.
func (p *Pending) complain(s *metric.Sample, reason metric.Reason) {
	suppressed, ok := p.sayLog[reason].Allow()
	if !ok {
		return
	}
	why := ""
	if reason == metric.Identity && p.parts.Explain != nil {
		why = p.parts.Explain(s)
	}
	p.parts.Logger.Warn("a held sample was refused", "reason", reason.String(), "why", why, "metric", excerpt(s.Name),
		"from", sentFrom(s.Sender), "suppressed", suppressed)
}

// refuse notes that nobody became known in time.
func (r *retrial) refuse(h *heldSender, samples int) {
	p := r.pending
	p.expired.Add(uint64(samples))
	suppressed, ok := p.lateLog.Allow()
	if !ok {
		return
	}
	from := &h.sender
	if h.unnamed {
		from = nil
	}
	said := []any{"from", sentFrom(from), "samples", samples}
	if r.blind != "" {
		said = append(said, "why", r.blind)
	} else {
		said = append(said, "held", p.config.MaxAge,
			"want", "no source NAT or proxy between pod and Sluice, or the address in trusted-forwarders")
	}
	p.parts.Logger.Warn("samples were refused: they were held, and nobody told whose they are",
		append(said, "suppressed", suppressed)...)
}
