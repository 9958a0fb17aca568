package receiver

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// intake is one goroutine's way from bytes to the table. The common case, an applied sample, is counted
// in plain fields and entered in the account once a batch.
//
// Lines are cut and gathered, and then applied in their order: those that the table knows again as they stand, the others
// parsed. What is gathered stays where it was read to until flush.
type intake struct {
	scanner    *statsd.Scanner
	applier    Applier
	recaller   recaller // the applier; nil: it knows no lines
	account    *Account
	complaints *complaints
	pending    *Pending // nil: there is none
	origin     SenderResolver
	sender     *metric.Sender // of what is taken

	lines    [gatherMost]metric.Line
	gathered int                        // of lines
	ahead    [parsedAhead]metric.Sample // of new lines, not yet applied
	more     bool                       // begin found something

	applied, held, packets, bytes uint64 // since settle
	parsed                        int    // lines since somebody set it to 0
}

// recaller is an Applier that knows lines again.
type recaller interface {
	// LookupLines looks up lines for ApplyKnown. Neither they nor what they borrow changes until Quiesce or Offline, or the
	// next LookupLines.
	LookupLines([]metric.Line)
	// ApplyKnown applies recalled lines from one on, up to the first that has to be parsed, and returns how many those are.
	ApplyKnown(from int) int
	// UnknownLines is how many recalled lines from one on nobody has seen before, but at most most.
	UnknownLines(from, most int) int
	// PrefetchNew says that the samples of recalled lines from one on are applied next. They stay where they are, and what they borrow stays
	// as it is, until the next PrefetchNew, Quiesce or Offline.
	PrefetchNew(from int, next []metric.Sample)
}

// gatherMost is how many lines are gathered: more would not stay in the nearest cache.
const gatherMost = 64

// parsedAhead is how many new lines are parsed before the first of them is applied: what the table has to look at for them comes
// meanwhile.
const parsedAhead = 8

// expect tells from whom packets are taken next.
func (in *intake) expect(senders []netip.Addr) { in.origin.expect(senders) }

// from says who sent what is taken next. An address that is not valid is a Unix socket's peer.
func (in *intake) from(a netip.Addr) {
	if in.gathered > 0 && in.origin.forgets(a) {
		in.flush()
	}
	in.sender = in.origin.Sender(a)
	in.scanner.Sample.Sender = in.sender
}

// take applies all lines of a packet. Whatever is wrong with one of them, its neighbours stand.
func (in *intake) take(packet []byte) {
	in.arrived(len(packet))
	in.scan(packet)
}

// gather takes a packet that stays where it is until settle.
func (in *intake) gather(packet []byte) {
	in.arrived(len(packet))
	in.cut(packet)
}

// takeCut applies the whole lines of a packet whose end is missing, and refuses the one that was cut.
func (in *intake) takeCut(packet []byte, reason metric.Reason) {
	in.arrived(len(packet))
	whole := bytes.LastIndexByte(packet, '\n') + 1
	in.scan(packet[:whole])
	if rest := packet[whole:]; len(rest) > 0 {
		in.refuse(statsd.Fault{Reason: reason}, len(rest), rest)
	}
}

// arrived enters one packet, or stream read, of n bytes.
func (in *intake) arrived(n int) {
	in.packets++
	in.bytes += uint64(n)
}

func (in *intake) scan(packet []byte) {
	in.cut(packet)
	in.flush()
}

// cut gathers a packet's lines.
func (in *intake) cut(packet []byte) {
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
			in.add(line)
		}
	}
}

func (in *intake) add(text []byte) {
	l := &in.lines[in.gathered]
	if in.recaller == nil || !in.scanner.Cut(text, l) {
		in.flush()
		in.parse(text, in.sender, nil)
		return
	}
	l.Sender = in.sender
	if in.gathered++; in.gathered == gatherMost {
		in.flush()
	}
}

// flush applies what was gathered.
func (in *intake) flush() {
	if in.gathered == 0 {
		return
	}
	lines := in.lines[:in.gathered]
	in.gathered = 0
	in.recaller.LookupLines(lines)
	for at := 0; at < len(lines); {
		n := in.recaller.ApplyKnown(at)
		in.applied += uint64(n)
		if at += n; at < len(lines) {
			at += in.parseSome(lines[at:], at)
		}
	}
	in.scanner.Sample.Sender, in.scanner.Sample.Line = in.sender, nil
}

// parseSome takes lines that are not known, of which the first was recalled as the from-th, and returns how many: new ones that say
// one thing together, any other by itself.
func (in *intake) parseSome(lines []metric.Line, from int) int {
	unknown, n := in.recaller.UnknownLines(from, parsedAhead), 0
	for n < unknown && in.begin(lines[n].Text, lines[n].Sender, &lines[n]) {
		in.ahead[n] = in.scanner.Sample
		n++
	}
	in.recaller.PrefetchNew(from, in.ahead[:n]) // also of one: what was foretold before at its address is over
	for i := range n {
		in.apply(&in.ahead[i], lines[i].Text)
	}
	switch {
	case n < unknown: // begun, but there is more to it
		in.finish()
	case n > 0:
		return n
	default:
		in.parse(lines[0].Text, lines[0].Sender, &lines[0])
	}
	return n + 1
}

// parse applies all that a line says.
func (in *intake) parse(text []byte, sender *metric.Sender, cut *metric.Line) {
	in.begin(text, sender, cut)
	in.finish()
}

// begin parses the first of what a line says. True: it holds, and is all of it. A line that was cut and says a single thing is known
// from then on.
func (in *intake) begin(text []byte, sender *metric.Sender, cut *metric.Line) bool {
	in.parsed++
	in.scanner.Reset(text)
	in.more = in.scanner.Next()
	in.scanner.Sample.Sender, in.scanner.Sample.Line = sender, nil
	if in.scanner.IsCacheable() {
		in.scanner.Sample.Line = cut
	}
	return in.more && in.scanner.Fault.Reason == metric.Applied && in.scanner.Done()
}

// finish applies what begin found and whatever else the line says.
func (in *intake) finish() {
	for ; in.more; in.more = in.scanner.Next() {
		if fault := in.scanner.Fault; fault.Reason != metric.Applied {
			in.refuse(fault, fault.Offset-in.scanner.LineOffset(), in.scanner.Line())
			continue
		}
		in.apply(&in.scanner.Sample, in.scanner.Line())
	}
}

// apply applies one sample of a line.
func (in *intake) apply(s *metric.Sample, line []byte) {
	reason := metric.Outdated
	if s.Timestamp == 0 || !s.Outdated(time.Now()) {
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
	in.complaints.refused(statsd.Fault{Reason: reason}, 0, line, s)
}

// refuse counts a line, or a part of one, and complains. The offset is within the line.
func (in *intake) refuse(fault statsd.Fault, offset int, line []byte) {
	in.account.Count(fault.Reason)
	in.complaints.refused(fault, offset, line, &in.scanner.Sample)
}

// taken is how many samples were applied or held since settle.
func (in *intake) taken() uint64 { return in.applied + in.held }

// settle applies what was gathered and enters in the account what the batch brought. Who sent it is asked anew for the next one.
func (in *intake) settle() {
	in.flush()
	in.origin.Reset()
	if in.packets == 0 && in.applied == 0 {
		return
	}
	in.account.CountApplied(in.applied)
	in.account.AddPackets(in.packets, in.bytes)
	in.applied, in.held, in.packets, in.bytes = 0, 0, 0, 0
}
