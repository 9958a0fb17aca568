package loadtest

import (
	"errors"
	"fmt"
)

// ErrBooks is what a run fails with that does not add up. It has no figures.
var ErrBooks = errors.New("the books do not balance, so there are no figures")

// books are the two sides of a run's account, over the server's whole life: the warm-up is in them. Every
// line is one sample.
type books struct {
	warmUp, load packing // as the sender counted it

	received, applied, rejected int64 // as the server counted it, in lines
	serverDrops                 int64 // as the server was told, in datagrams

	kernelDrops int64 // as the kernel says at the socket, in datagrams
	sums        []sum
}

// sum is what the values of a part of the series add up to, read series by series, and what they have to.
type sum struct {
	of        string
	got, want int64
}

// sumOf is what a part has to add up to when so many lines were applied, those of the warm-up with them, in
// datagrams of so many lines.
func (b books) sumOf(p part, perDatagram int) int64 {
	switch {
	case p.worth != 0:
		return p.worth
	case p.share == 0:
		return b.applied
	}
	return int64(p.size) + int64(p.share)*(b.applied-b.warmUp.lines())/int64(perDatagram)
}

// check returns every fault. The warm-up is slow enough to lose nothing, so drops are those of the load.
func (b books) check() error {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	sent := b.warmUp.lines() + b.load.lines()
	least, most := b.load.lost(b.kernelDrops)
	switch missing := sent - b.received; {
	case b.received <= 0:
		wrong("the server received nothing of %d lines", sent)
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
		wrong("rejected %d lines: the scenario has none to reject", b.rejected)
	}
	if b.serverDrops != b.kernelDrops {
		wrong("the server says that %d datagrams were dropped, the kernel %d", b.serverDrops, b.kernelDrops)
	}
	for _, s := range b.sums {
		if s.got != s.want {
			wrong("all %s add up to %d, want %d", s.of, s.got, s.want)
		}
	}
	return errors.Join(faults...)
}

// floorBooks are the same for the floor, which counts lines and nothing else.
type floorBooks struct {
	warmUp, load          packing
	received, kernelDrops int64
}

func (f floorBooks) check() error {
	all := books{
		warmUp: f.warmUp, load: f.load, received: f.received, applied: f.received,
		kernelDrops: f.kernelDrops, serverDrops: f.kernelDrops,
	}
	if err := all.check(); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	return nil
}
