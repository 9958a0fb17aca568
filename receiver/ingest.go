package receiver

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// ingester is one goroutine's path from bytes to the table. It counts the common case, an applied
// sample, in plain fields, and adds them to the account once per batch.
//
// Lines are cut and collected, and then applied in order. The table's line cache applies the lines
// that it has seen before; the ingester parses the others. Collected lines stay in the read buffer
// until flush.
type ingester struct {
	scanner    *statsd.Scanner
	applier    LineApplier
	account    *ledger.Account
	rejections *rejectionLog
	pending    *pending.Buffer // may be nil
	relay      Relay           // may be nil
	senders    PacketSenders   // may be nil
	resolver   SenderResolver  // of senders
	sender     *metric.Sender  // of the lines that are added

	lines     [maxBatchLines]metric.Line
	gathered  int                         // number of lines
	parsedNew [maxParsedNew]metric.Sample // parsed lines that are not yet applied
	hasMore   bool                        // parseFirst found a sample or fault

	applied, held, packets, bytes uint64 // since endBatch
	parsedLines                   int    // since the caller last set it to 0
}

// maxBatchLines bounds the collected lines: more would not fit the first-level cache.
const maxBatchLines = 64

// maxParsedNew is how many new lines are parsed before the first of them is applied. Meanwhile the
// table's memory for them is prefetched.
const maxParsedNew = 8

// prefetchSenders announces the senders of the next packets, unless they are all the same.
func (in *ingester) prefetchSenders(addresses []netip.Addr) {
	if in.senders != nil && slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a != addresses[0] }) {
		in.senders.Prefetch(addresses)
	}
}

// setSender sets the source address of the packets that follow. An invalid address means the peer
// of a Unix socket.
func (in *ingester) setSender(a netip.Addr) {
	if in.gathered > 0 && in.resolver.invalidates(a) {
		in.flush()
	}
	in.sender = in.resolver.Sender(a)
	in.scanner.Sample.Sender = in.sender
}

// applyPacket applies all lines of a packet. A bad line does not affect the others.
func (in *ingester) applyPacket(packet []byte) {
	in.countPacket(len(packet))
	in.applyLines(packet)
}

// addPacket adds the lines of a packet whose memory stays valid until endBatch.
func (in *ingester) addPacket(packet []byte) {
	in.countPacket(len(packet))
	in.addLines(packet)
}

// applyTruncated applies the whole lines of a packet whose end is missing, and rejects the
// truncated one.
func (in *ingester) applyTruncated(packet []byte, reason metric.Reason) {
	in.countPacket(len(packet))
	whole := bytes.LastIndexByte(packet, '\n') + 1
	in.applyLines(packet[:whole])
	if rest := packet[whole:]; len(rest) > 0 {
		in.reject(statsd.Fault{Reason: reason}, len(rest), rest)
	}
}

// countPacket counts one packet, or stream read, of n bytes.
func (in *ingester) countPacket(n int) {
	in.packets++
	in.bytes += uint64(n)
}

func (in *ingester) applyLines(packet []byte) {
	in.addLines(packet)
	in.flush()
}

func (in *ingester) addLines(packet []byte) {
	if in.relay != nil {
		in.relay.Relay(packet)
	}
	for len(packet) > 0 {
		line := packet
		if end := bytes.IndexByte(packet, '\n'); end >= 0 {
			line, packet = packet[:end], packet[end+1:]
		} else {
			packet = nil
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) > 0 {
			in.addLine(line)
		}
	}
}

func (in *ingester) addLine(text []byte) {
	l := &in.lines[in.gathered]
	if !in.scanner.Cut(text, l) {
		in.flush()
		in.parse(text, in.sender, nil)
		return
	}
	l.Sender = in.sender
	if in.gathered++; in.gathered == maxBatchLines {
		in.flush()
	}
}

// flush applies the collected lines.
func (in *ingester) flush() {
	if in.gathered == 0 {
		return
	}
	lines := in.lines[:in.gathered]
	in.gathered = 0
	in.applier.LookupLines(lines)
	for at := 0; at < len(lines); {
		n := in.applier.ApplyKnown(at)
		in.applied += uint64(n)
		if at += n; at < len(lines) {
			at += in.applyUnknown(lines[at:], at)
		}
	}
	in.scanner.Sample.Sender, in.scanner.Sample.Line = in.sender, nil
}

// applyUnknown applies unknown lines, of which the first has index from, and returns their number.
// New lines of a single sample are applied together, any other line alone.
func (in *ingester) applyUnknown(lines []metric.Line, from int) int {
	unknown, n := in.applier.UnknownLines(from, maxParsedNew), 0
	for n < unknown && in.parseFirst(lines[n].Text, lines[n].Sender, &lines[n]) {
		in.parsedNew[n] = in.scanner.Sample
		n++
	}
	in.applier.PrefetchNew(from, in.parsedNew[:n]) // always, because it ends the announcement before it
	for i := range n {
		in.apply(&in.parsedNew[i], lines[i].Text)
	}
	switch {
	case n < unknown: // the line has further samples or a fault
		in.applyRest()
	case n > 0:
		return n
	default:
		in.parse(lines[0].Text, lines[0].Sender, &lines[0])
	}
	return n + 1
}

// parse applies all samples of a line.
func (in *ingester) parse(text []byte, sender *metric.Sender, cut *metric.Line) {
	in.parseFirst(text, sender, cut)
	in.applyRest()
}

// parseFirst parses the first sample of a line. It returns true if the sample is valid and the only
// one. A line that was cut and has a single sample is put into the line cache when it is applied.
func (in *ingester) parseFirst(text []byte, sender *metric.Sender, cut *metric.Line) bool {
	in.parsedLines++
	in.scanner.Reset(text)
	in.hasMore = in.scanner.Next()
	in.scanner.Sample.Sender, in.scanner.Sample.Line = sender, nil
	if in.scanner.IsCacheable() {
		in.scanner.Sample.Line = cut
	}
	return in.hasMore && in.scanner.Fault.Reason == metric.Applied && in.scanner.Done()
}

// applyRest applies the sample that parseFirst found, and all further samples of the line.
func (in *ingester) applyRest() {
	for ; in.hasMore; in.hasMore = in.scanner.Next() {
		if fault := in.scanner.Fault; fault.Reason != metric.Applied {
			in.reject(fault, fault.Offset-in.scanner.LineOffset(), in.scanner.Line())
			continue
		}
		in.apply(&in.scanner.Sample, in.scanner.Line())
	}
}

// apply applies one sample of a line.
func (in *ingester) apply(s *metric.Sample, line []byte) {
	reason := metric.Outdated
	if s.Dated == 0 || !s.Outdated(time.Now()) {
		reason = in.applier.Apply(s)
	}
	if reason == metric.Pending {
		if in.pending.Hold(s, in.account) {
			in.held++
			return
		}
		reason = metric.Identity
	}
	if reason == metric.Applied {
		in.applied++
		return
	}
	in.account.Count(reason)
	in.rejections.rejected(statsd.Fault{Reason: reason}, 0, line, s)
}

// reject counts and logs a rejected line or part of a line. The offset is within the line.
func (in *ingester) reject(fault statsd.Fault, offset int, line []byte) {
	in.account.Count(fault.Reason)
	in.rejections.rejected(fault, offset, line, &in.scanner.Sample)
}

// accepted is the number of samples applied or pending since endBatch.
func (in *ingester) accepted() uint64 { return in.applied + in.held }

// endBatch applies the collected lines and updates the account. Senders are looked up anew for the
// next batch.
func (in *ingester) endBatch() {
	in.flush()
	in.resolver.Reset()
	if in.packets == 0 && in.applied == 0 {
		return
	}
	in.account.CountApplied(in.applied)
	in.account.AddPackets(in.packets, in.bytes)
	in.applied, in.held, in.packets, in.bytes = 0, 0, 0, 0
}

// Applier is one goroutine's path into the table.
type Applier = pending.Applier

// LineApplier is an Applier with a cache of lines: it maps the raw bytes of known lines to their series.
type LineApplier interface {
	Applier
	// LookupLines looks lines up for the other methods. The lines, and the memory that they borrow,
	// must not change until Quiesce, Offline or the next LookupLines.
	LookupLines([]metric.Line)
	// ApplyKnown applies known lines, starting at index from, up to the first unknown line. It
	// returns their number.
	ApplyKnown(from int) int
	// UnknownLines is the number of consecutive lines from index from on that were never seen, at
	// most limit.
	UnknownLines(from, limit int) int
	// PrefetchNew announces that these samples, of the lines from index from on, are applied next.
	// The samples, and the memory that they borrow, must not change until the next PrefetchNew,
	// Quiesce or Offline.
	PrefetchNew(from int, next []metric.Sample)
}
