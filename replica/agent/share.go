package agent

import (
	"net/netip"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

// share is what one address has of a Collector. All senders without an address, those of Unix
// sockets, have one share: the kernel tells pods apart only in the PID namespace of the node, and a
// claim is made up as easily as a name.
type share struct {
	address netip.Addr
	series  int
	bytes   int64
}

// shareLocked returns the share of a sample's sender. A new one is not noted yet.
func (c *Collector) shareLocked(s *metric.Sample) *share {
	var address netip.Addr
	if s.Sender != nil {
		address = s.Sender.Address
	}
	if found := c.shares[address]; found != nil {
		return found
	}
	return &share{address: address}
}

// leftLocked is the memory that a share may still have.
func (c *Collector) leftLocked(of *share) int64 {
	return fair.More(of.bytes, c.maxBytes-c.bytes)
}

// mayKnowLocked reports whether a share may have one more series, of a size.
func (c *Collector) mayKnowLocked(of *share, size int64) bool {
	return fair.More(of.series, c.maxSeries-len(c.byKey)) > 0 && size <= c.leftLocked(of)
}

// holdLocked counts memory that is taken, or returned if it is negative.
func (c *Collector) holdLocked(of *share, bytes int64) {
	c.bytes += bytes
	of.bytes += bytes
}

// knowLocked counts a series that is made.
func (c *Collector) knowLocked(one *series) {
	c.byKey[one.key] = one
	c.shares[one.of.address] = one.of
	one.of.series++
	c.holdLocked(one.of, one.size())
}

// unknowLocked counts a series that is forgotten.
func (c *Collector) unknowLocked(one *series) {
	delete(c.byKey, one.key)
	c.holdLocked(one.of, -one.size())
	if one.of.series--; one.of.series == 0 {
		delete(c.shares, one.of.address)
	}
}
