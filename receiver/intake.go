package receiver

import (
	"bytes"
	"net/netip"

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
	origin     Origin
	sender     *metric.Sender // of what is taken

	lines    [gatherMost]metric.Line
	gathered int // of lines

	applied, packets, bytes uint64
	parsed                  int // lines since somebody set it to 0
}

// recaller is an Applier that knows lines again.
type recaller interface {
	// Recall looks up lines for Repeat. Neither they nor what they borrow changes until Pass or Park, or the
	// next Recall.
	Recall([]metric.Line)
	// Repeat applies recalled lines from one on, up to the first that has to be parsed, and returns how many those are.
	Repeat(from int) int
}

// gatherMost is how many lines are gathered: more would not stay in the nearest cache.
const gatherMost = 64

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
	in.recaller.Recall(lines)
	for at := 0; at < len(lines); at++ {
		n := in.recaller.Repeat(at)
		in.applied += uint64(n)
		if at += n; at < len(lines) {
			in.parse(lines[at].Text, lines[at].Sender, &lines[at])
		}
	}
}

// parse applies all that a line says. One that was cut and says a single thing is known from then on.
func (in *intake) parse(text []byte, sender *metric.Sender, cut *metric.Line) {
	sample := &in.scanner.Sample
	sample.Sender = sender
	defer func() { sample.Sender, sample.Line = in.sender, nil }()
	in.parsed++
	for in.scanner.Reset(text); in.scanner.Next(); {
		fault := in.scanner.Fault
		if fault.Reason == metric.Applied {
			sample.Line = nil
			if in.scanner.Single() {
				sample.Line = cut
			}
			fault.Offset = in.scanner.LineOffset()
			if fault.Reason = in.applier.Apply(sample); fault.Reason == metric.Applied {
				in.applied++
				continue
			}
			if fault.Reason == metric.Pending {
				if in.pending.Hold(sample, in.account) {
					continue
				}
				fault.Reason = metric.Identity
			}
		}
		in.refuse(fault, fault.Offset-in.scanner.LineOffset(), in.scanner.Line())
	}
}

// refuse counts a line, or a part of one, and complains. The offset is within the line.
func (in *intake) refuse(fault statsd.Fault, offset int, line []byte) {
	in.account.Count(fault.Reason)
	in.complaints.refused(fault, offset, line, &in.scanner.Sample)
}

// settle applies what was gathered and enters in the account what the batch brought. Who sent it is asked anew for the next one.
func (in *intake) settle() {
	in.flush()
	in.origin.Forget()
	if in.packets == 0 && in.applied == 0 {
		return
	}
	in.account.CountBatch(in.applied)
	in.account.Packets(in.packets, in.bytes)
	in.applied, in.packets, in.bytes = 0, 0, 0
}
