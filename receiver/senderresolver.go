package receiver

import (
	"net/netip"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/pending"
)

// Senders looks up the holder of an address. Nil: the holder is unknown, but may become known at
// any moment. It is called once per datagram by many goroutines, so it neither waits nor allocates.
type Senders interface {
	Sender(netip.Addr) *metric.Sender
}

// PacketSenders can prefetch the holders of several addresses. An address may occur twice.
type PacketSenders interface {
	Senders
	Prefetch([]netip.Addr)
}

// SenderResolver finds the sender of the samples that one goroutine reads. The zero SenderResolver
// returns nil for every address. It is not safe for concurrent use.
type SenderResolver struct {
	// Senders may be nil: senders are not looked up.
	Senders Senders

	last    netip.Addr
	found   *metric.Sender // holder of last; nil: look it up
	scratch metric.Sender  // for an address whose holder is unknown
}

// unixSender is the sender of all Unix sockets: any process that may open the socket.
var unixSender = &metric.Sender{Key: metric.LocalKey, Known: true}

// Sender returns the holder of an address; an invalid address means the peer of a Unix socket. The
// result is valid until the next call. The address is looked up again only after another address or
// after Reset.
func (o *SenderResolver) Sender(a netip.Addr) *metric.Sender {
	if o.Senders == nil {
		return nil
	}
	if !a.IsValid() {
		return unixSender
	}
	if o.found != nil && a == o.last {
		return o.found
	}
	o.last, o.found = a, o.Senders.Sender(a)
	if o.found == nil {
		o.scratch = metric.Sender{Key: pending.AddressKey(a), Address: a}
		o.found = &o.scratch
	}
	return o.found
}

// invalidates reports whether looking up an address would overwrite the last result.
func (o *SenderResolver) invalidates(a netip.Addr) bool { return o.found == &o.scratch && a != o.last }

// Reset makes the next call look the address up: it may have changed hands since the last batch.
func (o *SenderResolver) Reset() { o.found = nil }
