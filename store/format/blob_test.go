package format

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
)

// entries are a Source.
type entries map[string][]byte

func (e entries) Get(key []byte, use func(value []byte) error) (found bool, err error) {
	value, found := e[string(key)]
	if !found {
		return false, nil
	}
	return true, use(value)
}

// put writes a blob as the store does.
func (e entries) put(b Blob) {
	b.Seal()
	if b.Parts == 0 {
		e[string(b.Key)] = append(b.Header.Append(nil), b.Value...)
		return
	}
	for part := range int(b.Parts) {
		e[string(AppendPartKey(nil, b.Key, b.Generation, part))] = AppendPart(nil, b.Seq, b.Part(part))
	}
	e[string(b.Key)] = b.Header.Append(nil)
}

func TestBlobs(t *testing.T) {
	for _, size := range []int{0, 1, PartBytes - 1, PartBytes, PartBytes + 1, 2 * PartBytes, 2*PartBytes + 1} {
		source, value := entries{}, bytes.Repeat([]byte{7}, size)
		key := AppendBlockKey(nil, PrefixNames, 5)
		source.put(Blob{Key: key, Value: value, Header: Header{Seq: 300, Link: 299, Generation: 1}})
		r := NewReader(source)
		h, got, found, err := r.Head(key)
		if err != nil || !found || !bytes.Equal(got, value) || h.Seq != 300 || h.Link != 299 || h.Generation != 1 {
			t.Errorf("%d bytes: %d bytes read with %+v, %v, %v", size, len(got), h, found, err)
		}
		if wantParts := size > PartBytes; wantParts != (len(source) > 1) {
			t.Errorf("%d bytes: %d entries", size, len(source))
		}
	}
}

// TestDamagedBlobs: an entry with wrong bytes is an error that says so, and costs no memory,
// whatever its header says.
func TestDamagedBlobs(t *testing.T) {
	key := AppendBlockKey(nil, PrefixCheckpoint, 1)
	for name, c := range map[string]struct {
		damage func(entries)
		want   string
	}{
		"header cut short": {func(e entries) { e[string(key)] = e[string(key)][:HeaderBytes-1] }, "header is cut short"},
		"part missing":     {func(e entries) { delete(e, string(AppendPartKey(nil, key, 0, 1))) }, "part 1 of 3 is missing"},
		"part of another":  {func(e entries) { e[string(AppendPartKey(nil, key, 0, 2))][0]++ }, "belongs to another flush"},
		"part with a flip": {func(e entries) { e[string(AppendPartKey(nil, key, 0, 2))][9]++ }, "checksum"},
		"length of 4 GiB":  {func(e entries) { e[string(key)] = Header{Seq: 1, Length: math.MaxUint32, Parts: 3}.Append(nil) }, "length"},
		"65,535 parts": {func(e entries) {
			e[string(key)] = Header{Seq: 1, Length: math.MaxUint32, Parts: math.MaxUint16}.Append(nil)
		}, "is missing"},
		"text for a header":    {func(e entries) { e[string(key)] = []byte(strings.Repeat("garbage", 10)) }, "is missing"},
		"value of another one": {func(e entries) { e[string(key)] = append(Header{Seq: 1, Length: 3}.Append(nil), "abc"...) }, "checksum"},
	} {
		source := entries{}
		source.put(Blob{Key: key, Value: make([]byte, 2*PartBytes+5), Header: Header{Seq: 1}})
		c.damage(source)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, found, err := NewReader(source).Head(key)
		runtime.ReadMemStats(&after)
		if !found || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, %v; want an error with %q", name, found, err, c.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
			t.Errorf("%s: took %d MiB", name, took>>20)
		}
	}
}

func TestSequences(t *testing.T) {
	s := Sequence(5 << 8)
	for _, c := range []struct {
		from Sequence
		same bool
		want string
	}{{s, false, "6.0"}, {s, true, "5.1"}, {s | 255, true, "6.0"}, {s | 7, false, "6.0"}} {
		if next := c.from.Next(c.same); fmt.Sprintf("%d.%d", next.Period(), byte(next)) != c.want || next.OpensPeriod() != (c.want == "6.0") {
			t.Errorf("after %x: %x, want %s", uint64(c.from), uint64(next), c.want)
		}
	}
}
