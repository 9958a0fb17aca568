package valuelist

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// chunkBytes is the size of a write. The library decides by the first write whether to compress an
// answer, from 128 KiB on, so the first chunk is larger than that or the whole answer.
const chunkBytes = 160 << 10

var chunkBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, chunkBytes+chunkBytes/8)) }}

// writeChunks writes an answer item by item in chunks, so it is never in memory as a whole.
func writeChunks(to io.Writer, head []byte, items int, item func(dst []byte, i int) []byte, tail string) error {
	kept := chunkBuffers.Get().(*[]byte)
	defer chunkBuffers.Put(kept)
	buf := append((*kept)[:0], head...)
	for i := range items {
		buf = item(buf, i)
		if len(buf) < chunkBytes {
			continue
		}
		if _, err := to.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
		runtime.Gosched() // let other goroutines run during a large answer
	}
	_, err := to.Write(append(buf, tail...))
	return err
}

// timestampCache caches the last encoded timestamp, by second: most items of a list share it.
type timestampCache struct {
	second int64
	text   []byte
}

// of returns the encoded time.
func (s *timestampCache) of(t time.Time, form func([]byte, time.Time) []byte) []byte {
	if second := t.Unix(); second != s.second || s.text == nil {
		s.second, s.text = second, form(s.text[:0], t)
	}
	return s.text
}

// writeJSON writes the same bytes as encoding/json does for the typed list.
func (l *List) writeJSON(version schema.GroupVersion, to io.Writer) error {
	item := l.items.jsonItem(version)
	head := appendMember([]byte{'{'}, `"kind":`, l.kind)
	head = appendMember(head, `"apiVersion":`, version.String())
	head = append(head, `"metadata":`...)
	head = closeObject(appendMember(append(head, '{'), `"resourceVersion":`, l.version))
	head = append(head, `,"items":[`...)
	return writeChunks(to, head, len(l.Points), func(dst []byte, i int) []byte {
		if i > 0 {
			dst = append(dst, ',')
		}
		return item(dst, &l.Points[i])
	}, "]}\n")
}

// appendMember appends a member of an object and a comma, unless the value is empty ("omitempty").
func appendMember(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	dst = appendString(append(dst, key...), value)
	return append(dst, ',')
}

// closeObject replaces the comma of the last member by a brace, or appends the brace to an empty
// object.
func closeObject(dst []byte) []byte {
	if last := len(dst) - 1; dst[last] == ',' {
		dst[last] = '}'
		return dst
	}
	return append(dst, '}')
}

// appendString appends a string as encoding/json does. Strings with anything to escape are left to
// encoding/json.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // strings cannot fail
			return append(dst, text...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// appendTimeJSON is metav1.Time's MarshalJSON.
func appendTimeJSON(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	dst = t.UTC().AppendFormat(append(dst, '"'), time.RFC3339)
	return append(dst, '"')
}

// appendValueJSON is Quantity's MarshalJSON.
func appendValueJSON(dst []byte, n metric.Number) []byte {
	return append(appendQuantity(append(dst, '"'), n), '"')
}

// Keys of length-delimited fields: the field number and wire type 2
// (protobuf.dev/programming-guides/encoding).
const (
	field1 = 1<<3 | 2
	field2 = 2<<3 | 2
	field3 = 3<<3 | 2
	field4 = 4<<3 | 2
	field5 = 5<<3 | 2
	field6 = 6<<3 | 2
	field7 = 7<<3 | 2

	varint1 = 1 << 3
	varint2 = 2 << 3
	varint4 = 4 << 3
)

// writeProtobuf writes the same bytes as the library's serializer does for the typed list:
// "k8s\x00" and a runtime.Unknown around the list (k8s.io/apimachinery
// pkg/runtime/generated.proto). Every message is preceded by its length, so all items are measured
// first.
func (l *List) writeProtobuf(version schema.GroupVersion, to io.Writer) error {
	item := l.items.protobufItem(version)
	meta := appendField(nil, field1, "") // metav1.ListMeta: selfLink, resourceVersion, continue
	meta = appendField(meta, field2, l.version)
	meta = appendField(meta, field3, "")
	size := fieldSize(len(meta))
	for i := range l.Points {
		size += fieldSize(item.measure(&l.Points[i]))
	}
	typeMeta := appendField(nil, field1, version.String())
	typeMeta = appendField(typeMeta, field2, l.kind)
	head := appendField([]byte("k8s\x00"), field1, typeMeta)
	head = binary.AppendUvarint(append(head, field2), uint64(size))
	head = appendField(head, field1, meta)
	return writeChunks(to, head, len(l.Points), func(dst []byte, i int) []byte {
		p := &l.Points[i]
		dst = binary.AppendUvarint(append(dst, field2), uint64(item.measure(p)))
		return item.append(dst, p)
	}, string([]byte{field3, 0, field4, 0})) // contentEncoding, contentType
}

// fieldSize is the size of a field of n bytes with its key and length.
func fieldSize(n int) int { return 1 + varintSize(uint64(n)) + n }

func varintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

func appendField[B string | []byte](dst []byte, key byte, value B) []byte {
	dst = binary.AppendUvarint(append(dst, key), uint64(len(value)))
	return append(dst, value...)
}

// appendTimeProtobuf is metav1.Time's Marshal.
func appendTimeProtobuf(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	dst = binary.AppendUvarint(append(dst, varint1), uint64(t.Unix()))
	return append(dst, varint2, 0)
}

// commonFields encodes the fields that the items of all lists have under the same numbers:
// timestamp, window, value. It holds those of the last measured item.
type commonFields struct {
	stamps timestampCache
	stamp  []byte
	window []byte
	value  []byte
}

func (m *commonFields) measureCommon(p *metric.Point) (size int) {
	m.stamp = m.stamps.of(p.Time, appendTimeProtobuf)
	m.value = appendQuantity(m.value[:0], p.Value)
	size = fieldSize(len(m.stamp)) + fieldSize(fieldSize(len(m.value)))
	m.window = m.window[:0]
	if p.Window != 0 {
		m.window = binary.AppendUvarint(append(m.window, varint4), uint64(wholeSeconds(p.Window)))
	}
	return size + len(m.window)
}

func (m *commonFields) appendCommon(dst []byte) []byte {
	dst = appendField(dst, field3, m.stamp)
	dst = append(dst, m.window...)
	dst = append(dst, field5, byte(fieldSize(len(m.value)))) // a quantity is far shorter than 128 bytes
	return appendField(dst, field1, m.value)
}
