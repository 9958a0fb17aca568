package loadtest

import (
	"errors"
	"fmt"
)

// ErrUnaccounted means that some lines of a run are unaccounted for. Such a run has no figures.
var ErrUnaccounted = errors.New("some lines are unaccounted for, so there are no figures")

// accounting compares the counts of the sender, the kernel and the server over the server's whole
// life, the warm-up included. Every line is one sample.
type accounting struct {
	warmUp, load packing // counted by the sender

	received, applied, rejected int64 // counted by the server, in lines
	serverDrops                 int64 // reported by the server, in datagrams

	kernelDrops int64 // counted by the kernel at the socket, in datagrams
	sums        []sum
}

// sum compares the values of a part, read series by series, with the expected sum.
type sum struct {
	of        string
	got, want int64
}

// sumOf returns the expected sum of a part. Each datagram of the load has perDatagram lines.
func (b accounting) sumOf(p part, perDatagram int) int64 {
	switch {
	case p.worth != 0:
		return p.worth
	case p.share == 0:
		return b.applied
	}
	return int64(p.size) + int64(p.share)*(b.applied-b.warmUp.lines())/int64(perDatagram)
}

// check returns every fault. The warm-up is slow enough to lose nothing, so drops belong to the
// load.
func (b accounting) check() error {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	sent := b.warmUp.lines() + b.load.lines()
	least, most := b.load.lost(b.kernelDrops)
	switch missing := sent - b.received; {
	case b.received <= 0:
		wrong("the server received none of %d lines", sent)
	case least == most && missing != least:
		wrong("sent %d lines, received %d, and %d dropped datagrams had %d: %d are unaccounted for",
			sent, b.received, b.kernelDrops, least, missing-least)
	case missing < least || missing > most:
		wrong("sent %d lines, received %d, and %d dropped datagrams had %d to %d: the %d missing do not fit",
			sent, b.received, b.kernelDrops, least, most, missing)
	}
	if b.received != b.applied+b.rejected {
		wrong("received %d lines, but applied %d and rejected %d", b.received, b.applied, b.rejected)
	}
	if b.rejected != 0 {
		wrong("rejected %d lines; the scenario has only valid ones", b.rejected)
	}
	if b.serverDrops != b.kernelDrops {
		wrong("the server reports %d dropped datagrams, the kernel %d", b.serverDrops, b.kernelDrops)
	}
	for _, s := range b.sums {
		if s.got != s.want {
			wrong("the sum of all %s is %d; must be %d", s.of, s.got, s.want)
		}
	}
	return errors.Join(faults...)
}

// floorAccounting is the accounting of a floor, which counts lines only.
type floorAccounting struct {
	warmUp, load          packing
	received, kernelDrops int64
}

func (f floorAccounting) check() error {
	all := accounting{
		warmUp: f.warmUp, load: f.load, received: f.received, applied: f.received,
		kernelDrops: f.kernelDrops, serverDrops: f.kernelDrops,
	}
	if err := all.check(); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	return nil
}
