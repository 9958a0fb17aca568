package receiver

import (
	"bytes"
	"net/netip"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// intake is one goroutine's way from bytes to the table. The common case, an applied sample, is counted
// in plain fields and entered in the account once a batch.
type intake struct {
	scanner    *statsd.Scanner
	applier    Applier
	account    *Account
	complaints *complaints
	pending    *Pending // nil: there is none
	origin     Origin

	applied, packets, bytes uint64
}

// from says who sent what is taken next. An address that is not valid is a Unix socket's peer.
func (in *intake) from(a netip.Addr) { in.scanner.Sample.Sender = in.origin.Sender(a) }

// take applies all lines of a packet. Whatever is wrong with one of them, its neighbours stand.
func (in *intake) take(packet []byte) {
	in.arrived(len(packet))
	in.scan(packet)
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
	for in.scanner.Reset(packet); in.scanner.Next(); {
		fault := in.scanner.Fault
		if fault.Reason == metric.Applied {
			fault.Offset = in.scanner.LineOffset()
			if fault.Reason = in.applier.Apply(&in.scanner.Sample); fault.Reason == metric.Applied {
				in.applied++
				continue
			}
			if fault.Reason == metric.Pending {
				if in.pending.Hold(&in.scanner.Sample, in.account) {
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

// settle enters in the account what the batch brought. Who sent it is asked anew for the next one.
func (in *intake) settle() {
	in.origin.Forget()
	if in.packets == 0 && in.applied == 0 {
		return
	}
	in.account.CountBatch(in.applied)
	in.account.Packets(in.packets, in.bytes)
	in.applied, in.packets, in.bytes = 0, 0, 0
}
