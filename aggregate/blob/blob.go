// Package blob encodes and decodes the varints, strings and floats of saved state. A damaged blob
// is an error, never a panic, because a disk may return arbitrary bytes.
package blob

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrDamaged is the error of a blob that the table did not write.
var ErrDamaged = errors.New("damaged: not what was written")

// AppendString appends a string with its length.
func AppendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendFloat appends the eight bytes of a float64.
func AppendFloat(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// Decoder reads a blob. After the first error, it returns zeroes and keeps the error in Err.
type Decoder struct {
	Rest []byte // the bytes not read yet
	Err  error
}

// More reports whether there are bytes left and no error.
func (d *Decoder) More() bool { return d.Err == nil && len(d.Rest) > 0 }

// Fail sets the error ErrDamaged and drops the remaining bytes.
func (d *Decoder) Fail() { d.Rest, d.Err = nil, ErrDamaged }

func (d *Decoder) Uvarint() uint64 {
	v, n := binary.Uvarint(d.Rest)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

func (d *Decoder) Varint() int64 {
	v, n := binary.Varint(d.Rest)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

func (d *Decoder) Uint32() uint32 {
	v := d.Uvarint()
	if v > math.MaxUint32 {
		d.Fail()
		return 0
	}
	return uint32(v)
}

func (d *Decoder) Byte() byte {
	b := d.Bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// Bytes reads n bytes. The result borrows from the blob.
func (d *Decoder) Bytes(n uint64) []byte {
	if d.Err != nil || uint64(len(d.Rest)) < n {
		d.Fail()
		return nil
	}
	b := d.Rest[:n]
	d.Rest = d.Rest[n:]
	return b
}

func (d *Decoder) String() string { return string(d.Bytes(d.Uvarint())) }

func (d *Decoder) Uint64() uint64 {
	b := d.Bytes(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (d *Decoder) Float() float64 { return math.Float64frombits(d.Uint64()) }
