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
	sum         int64 // of all counters, read series by series
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
	if b.sum != b.applied {
		wrong("all series add up to %d, but %d lines were applied", b.sum, b.applied)
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
		warmUp: f.warmUp, load: f.load, received: f.received, applied: f.received, sum: f.received,
		kernelDrops: f.kernelDrops, serverDrops: f.kernelDrops,
	}
	if err := all.check(); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	return nil
}
