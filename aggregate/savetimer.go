package aggregate

import (
	"encoding/binary"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// How a timer's past is kept. The first format began with the number of the shortest span's slots, which is below these.
const (
	pastWhole    = 64 + iota // all of it: what is there goes
	pastLatest               // the latest records of the shortest span: whoever reads them folds as the writer did
	timerCounted             // the weights that came, as notes; what came with them follows in one of the forms above
)

// appendLocked appends what came from the tick since on.
func (t *timer) appendLocked(dst []byte, spans []window.Span, since uint32) []byte {
	if t.units == nil {
		return append(dst, pastLatest, 0)
	}
	fine, first := &t.units[0], spans[0].Unit(since)
	if since > 0 && (int(fine.count) < spans[0].Kept() || fine.oldest() <= first) {
		return fine.appendSince(append(dst, pastLatest), first)
	}
	dst = binary.AppendUvarint(append(dst, pastWhole), uint64(t.folded))
	for i := range t.units {
		dst = t.units[i].appendSince(dst, 0)
	}
	return dst
}

func (s *timerSlots) appendSince(dst []byte, first uint32) []byte {
	records, n := s.since(first)
	return append(binary.AppendUvarint(dst, uint64(n)), records...)
}
