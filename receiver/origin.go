package receiver

import (
	"hash/maphash"
	"net/netip"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

// Senders knows who has an address. Nil: nobody is known to have it, but somebody may be any moment. It is asked once
// a datagram, by many goroutines at once, so it neither waits nor allocates.
type Senders interface {
	Sender(netip.Addr) *metric.Sender
}

// foreseeing are Senders that answer quicker about addresses they were told of before: about many at once. One may be among them twice.
type foreseeing interface {
	Expect([]netip.Addr)
}

// Origin finds out who sent what one goroutine takes. The zero Origin names nobody. It is not safe for use by two
// goroutines.
type SenderResolver struct {
	// Senders may be nil: nobody asks.
	Senders Senders

	last    netip.Addr
	found   *metric.Sender // who has last; nil: ask
	scratch metric.Sender  // for an address that nobody is known to have
}

// ownKey is set in the keys that are made here, and in no key that Senders makes up.
const ownKey = 1 << 63

// unixSender is whoever can open a Unix socket.
var unixSender = &metric.Sender{Key: ownKey, Known: true}

// addressSeed makes one address have one key in the whole process.
var addressSeed = maphash.MakeSeed()

// Sender is who has the address; one that is not valid is a Unix socket's peer. The answer is valid until the next
// call. It is asked for anew only for another address, or after Forget.
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
		o.scratch = metric.Sender{Key: addressKey(a), Address: a}
		o.found = &o.scratch
	}
	return o.found
}

// expect tells of addresses that are asked for next, if anybody wants to know. One alone is asked for soon enough.
func (o *SenderResolver) expect(all []netip.Addr) {
	if ahead, ok := o.Senders.(foreseeing); ok {
		if slices.ContainsFunc(all, func(a netip.Addr) bool { return a != all[0] }) {
			ahead.Expect(all)
		}
	}
}

// forgets reports whether asking for an address makes the last answer invalid.
func (o *SenderResolver) forgets(a netip.Addr) bool { return o.found == &o.scratch && a != o.last }

// Forget makes the next call ask again: an address may have changed hands since the last batch.
func (o *SenderResolver) Reset() { o.found = nil }

// addressKey is the key of whoever sends from an address that nobody is known to have.
func addressKey(a netip.Addr) uint64 {
	b := a.As16()
	return maphash.Bytes(addressSeed, b[:]) | ownKey
}
