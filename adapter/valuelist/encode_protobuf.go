package valuelist

import (
	"encoding/binary"
	"io"
	"math/bits"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
