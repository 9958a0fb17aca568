package aggregate

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// The identities of a block's series repeat few strings: resource, namespace, metric name and
// labels; and, for the series of one pod, the pod's name and UID. A blob spells out each string
// once and refers to it by number afterwards. That halves the birth of a pod's counter. Writing and
// compacting births is most of a new series' cost outside the table.
//
// A string is encoded as twice its length, then its bytes. A reference is encoded as twice the
// string's number plus one. Strings are numbered from 0 in the order in which they are spelled out.

// nameWriter holds the strings that a blob has spelled out so far.
type nameWriter struct {
	shared, objects stringTable
	created         int64 // of the birth before
}

// nameReader holds the strings that were read spelled out so far, by number.
type nameReader struct {
	shared, objects []string
	created         int64 // of the birth before
	undated         bool  // births have no date
}

// birth is the saved identity of a series.
type birth struct {
	place, state, born uint32
	created            uint32 // 0: unknown
	kind               metric.Kind
	object             metric.Object
	name, labels       string
}

// appendLocked appends a series' identity.
func (s *nameWriter) appendLocked(dst []byte, b *block, place uint32) []byte {
	sery := &b.series[place]
	e, key := sery.entry, &sery.entry.Family.Key
	dst = binary.AppendUvarint(dst, uint64(place))
	dst = binary.AppendUvarint(dst, uint64(b.savedState(place)))
	dst = append(dst, byte(e.Kind))
	dst = binary.AppendUvarint(dst, uint64(sery.born))
	dst = binary.AppendVarint(dst, int64(b.page.created[place])-s.created)
	s.created = int64(b.page.created[place])
	dst = s.shared.append(s.shared.append(s.shared.append(dst, key.Resource), key.Namespace), key.Name)
	dst = s.objects.append(s.objects.append(dst, e.Name), e.UID)
	return s.shared.append(dst, sery.packed())
}

// readPlace reads a series' place in its block.
func readPlace(d *blob.Decoder) uint32 {
	v := d.Uint32()
	if v >= kind.BlockSeries {
		d.Fail()
		return 0
	}
	return v
}

// next reads what appendLocked wrote.
func (s *nameReader) next(d *blob.Decoder) (i birth) {
	i.place, i.state, i.kind, i.born = readPlace(d), d.Uint32(), metric.Kind(d.Byte()), d.Uint32()
	if !s.undated {
		if s.created += d.Varint(); s.created < 0 || s.created > math.MaxUint32 {
			d.Fail()
		}
		i.created = uint32(s.created)
	}
	i.object.Resource, i.object.Namespace, i.name = readShared(d, &s.shared), readShared(d,
		&s.shared), readShared(d, &s.shared)
	i.object.Name, i.object.UID, i.labels = readShared(d, &s.objects), readShared(d, &s.objects), readShared(d, &s.shared)
	return i
}

// The first varint of a names blob says how it is written. datedNames have the dates of births;
// sharedNames, of an older format, don't. Still older blobs begin with a place, which is always lower.
const (
	sharedNames = kind.BlockSeries
	datedNames  = kind.BlockSeries + 1
)

// readNames reads the output of AppendNames, in this format and older ones. Each call of next reads
// one birth.
func readNames(names []byte) (d *blob.Decoder, next func() birth) {
	d = &blob.Decoder{Rest: names}
	first, n := binary.Uvarint(names)
	if n <= 0 || first != sharedNames && first != datedNames {
		return d, func() birth { return readSpelledOut(d) }
	}
	d.Uvarint()
	before := nameReader{undated: first == sharedNames}
	return d, func() birth { return before.next(d) }
}

// readSpelledOut reads a birth of an older format, which spells out all its strings.
func readSpelledOut(d *blob.Decoder) (i birth) {
	i.place, i.state, i.kind, i.born = readPlace(d), d.Uint32(), metric.Kind(d.Byte()), d.Uint32()
	i.object = metric.Object{Resource: d.String(), Namespace: d.String(), Name: d.String(), UID: d.String()}
	i.name, i.labels = d.String(), d.String()
	return i
}

// stringTable maps strings to their numbers: a hash table of fixed size that forgets. A string lies
// within spelledProbes slots of its hash. If all of them are taken, it replaces the string in the
// first one, which is spelled out anew the next time.
type stringTable struct {
	places [128]struct {
		text   string
		number uint64
	}
	count uint64
}

const spelledProbes = 8

func (s *stringTable) append(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, 0)
	}
	hash := endHash(text)
	at := &s.places[hash%uint64(len(s.places))]
	for i := range uint64(spelledProbes) {
		place := &s.places[(hash+i)%uint64(len(s.places))]
		if place.text == text {
			return binary.AppendUvarint(dst, place.number<<1|1)
		}
		if place.text == "" {
			at = place
			break
		}
	}
	at.text, at.number = text, s.count
	s.count++
	return append(binary.AppendUvarint(dst, uint64(len(text))<<1), text...)
}

// endHash hashes the last eight bytes of a string. Names that follow one another mostly differ
// there.
func endHash(text string) uint64 {
	end := text[max(len(text)-8, 0):]
	var bytes uint64
	if len(end) == 8 {
		bytes = binary.LittleEndian.Uint64(unsafe.Slice(unsafe.StringData(end), 8))
	} else {
		for i := range len(end) {
			bytes = bytes<<8 | uint64(end[i])
		}
	}
	return bytes * 0x9e3779b97f4a7c15 >> 57 // the 7 highest bits, for 128 slots, depend on all bytes
}

// readShared reads a string: spelled out, or a reference to an earlier one.
func readShared(d *blob.Decoder, before *[]string) string {
	n := d.Uvarint()
	switch {
	case n == 0:
		return ""
	case n&1 == 0:
		text := string(d.Bytes(n >> 1))
		*before = append(*before, text)
		return text
	case n>>1 < uint64(len(*before)):
		return (*before)[n>>1]
	}
	d.Fail()
	return ""
}

// Replicas hash the members of sets with one seed: the least that any of them has. A seed begins
// with the time at which it was made, so a replica with an empty folder takes the seed of the
// others, and their sets stay as they are.

// newSetSeed returns the seed of a table that was never saved.
func newSetSeed() uint64 { return uint64(time.Now().Unix())<<32 | uint64(rand.Uint32()) }

// hearSeed adopts the seed of another origin if it is less than the own one.
func (t *Table) hearSeed(seed uint64) {
	if seed >= t.SetSeed.Load() {
		return
	}
	t.seedMu.Lock()
	defer t.seedMu.Unlock()
	if seed < t.SetSeed.Load() {
		t.adoptSeedLocked(seed)
	}
}

// adoptSeedLocked makes the table hash the members of sets with another seed. Sets that exist keep
// their members (kind/set_estimate.go). The next delta of each block saves them.
func (t *Table) adoptSeedLocked(seed uint64) {
	now := t.Clock.Now()
	t.AdoptSeed(seed, now.Tick)
	for i := range t.blocks.made.Load() {
		t.reseedBlock(t.blocks.at[i].Load(), now)
	}
}

// reseedBlock makes the sets of a block change to the table's seed.
func (t *Table) reseedBlock(b *block, now window.Moment) {
	for place := range uint32(kind.BlockSeries) {
		b.history.Lock()
		if b.page.cells[place].State.Load()&kind.Live != 0 && b.page.kinds[place] == metric.Set {
			t.rollSeriesLocked(b, place, b.tickLocked(place, now))
			b.unsaved.Mark(place)
		}
		b.history.Unlock()
	}
}
