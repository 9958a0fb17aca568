package aggregate

import (
	"encoding/binary"
	"errors"
	"math"
)

// What the store keeps is written and read here: varints, and strings behind their length. A blob that ends early
// or runs on is an error, never a panic: a disk may return anything.

// errDamaged is what a blob is that the table did not write.
var errDamaged = errors.New("damaged: not what was written")

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendFloat(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// decoder reads a blob. After the first fault it returns zeroes and keeps the fault.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) more() bool { return d.err == nil && len(d.rest) > 0 }

func (d *decoder) fail() { d.rest, d.err = nil, errDamaged }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	if v > math.MaxUint32 {
		d.fail()
		return 0
	}
	return uint32(v)
}

func (d *decoder) byte() byte {
	b := d.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// bytes takes n bytes, borrowed from the blob.
func (d *decoder) bytes(n uint64) []byte {
	if d.err != nil || uint64(len(d.rest)) < n {
		d.fail()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) string() string { return string(d.bytes(d.uvarint())) }

func (d *decoder) uint64() uint64 {
	b := d.bytes(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (d *decoder) float() float64 { return math.Float64frombits(d.uint64()) }
