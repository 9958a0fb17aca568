package aggregate

import (
	"encoding/binary"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

// What identifies the series of a block is mostly the same few strings: resource, namespace, metric
// and labels, and of one pod's series name and UID. So a blob spells out each once, and says then
// which one it was. A birth of a pod's counter takes half of the bytes so: who writes them and
// compacts them has as much less to do, which is most of what a new series costs beside its place
// in the table.
//
// A string is its length, doubled, and its bytes; or its number, doubled, plus one: how many were
// spelled out before it.

// nameWriter is what the writer of a blob has spelled out.
type nameWriter struct {
	shared, objects stringTable
}

// nameReader is what the reader of a blob has found spelled out.
type nameReader struct {
	shared, objects []string
}

// birth is what a birth says of a series.
type birth struct {
	place, state, born uint32
	kind               metric.Kind
	object             metric.Object
	name, labels       string
}

// appendLocked appends a series' identity.
func (s *nameWriter) appendLocked(dst []byte, b *block, place uint32) []byte {
	one := &b.series[place]
	e, key := one.entry, &one.entry.Family.Key
	dst = binary.AppendUvarint(dst, uint64(place))
	dst = binary.AppendUvarint(dst, uint64(b.page.cells[place].State.Load()))
	dst = append(dst, byte(e.Kind))
	dst = binary.AppendUvarint(dst, uint64(one.born))
	dst = s.shared.append(s.shared.append(s.shared.append(dst, key.Resource), key.Namespace), key.Name)
	dst = s.objects.append(s.objects.append(dst, e.Name), e.UID)
	return s.shared.append(dst, one.packed())
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
	i.object.Resource, i.object.Namespace, i.name = readShared(d, &s.shared), readShared(d, &s.shared), readShared(d, &s.shared)
	i.object.Name, i.object.UID, i.labels = readShared(d, &s.objects), readShared(d, &s.objects), readShared(d, &s.shared)
	return i
}

// sharedNames begins the names of a block whose strings are spelled out once: no place is so high.
const sharedNames = kind.BlockSeries

// readNames reads the names of a block, of any format: next reads one.
func readNames(names []byte) (d *blob.Decoder, next func() birth) {
	d = &blob.Decoder{Rest: names}
	if first, n := binary.Uvarint(names); n <= 0 || first != sharedNames {
		return d, func() birth { return readSpelledOut(d) }
	}
	d.Uvarint()
	var before nameReader
	return d, func() birth { return before.next(d) }
}

// spelledOut reads a birth as the formats up to the third have it, with all its strings.
func readSpelledOut(d *blob.Decoder) (i birth) {
	i.place, i.state, i.kind, i.born = readPlace(d), d.Uint32(), metric.Kind(d.Byte()), d.Uint32()
	i.object = metric.Object{Resource: d.String(), Namespace: d.String(), Name: d.String(), UID: d.String()}
	i.name, i.labels = d.String(), d.String()
	return i
}

// stringTable are strings with their numbers. A string stands within a few places of where its hash
// says; one that found them taken took the first, and who stood there is spelled out again.
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
		one := &s.places[(hash+i)%uint64(len(s.places))]
		if one.text == text {
			return binary.AppendUvarint(dst, one.number<<1|1)
		}
		if one.text == "" {
			at = one
			break
		}
	}
	at.text, at.number = text, s.count
	s.count++
	return append(binary.AppendUvarint(dst, uint64(len(text))<<1), text...)
}

// endHash is a hash of a string's end, in which those that follow one another mostly differ.
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
	return bytes * 0x9e3779b97f4a7c15 >> 57 // the highest bits: as many as there are places, in which all bytes have a part
}

// spelled reads a string that may be one of those before it.
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
