package body

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/sluice-metrics/sluice/internal/fair"
)

// maxZstdWindow bounds what one zstd decoder holds besides the body; 8 MiB is what RFC 8878 asks
// all to support.
const maxZstdWindow = 8 << 20

// decoderPatience is how long a body waits for a decoder.
const decoderPatience = 5 * time.Second

// decoder is a reusable decompressor. It reads from source, which is emptied before the decoder
// returns to its pool, so that an idle one keeps no body.
type decoder struct {
	io.Reader
	source bytes.Reader
	// reset starts at the beginning of source.
	reset func(*decoder) error
}

// coding is a content coding (RFC 9110, section 8.4.1) with its idle decoders.
type coding struct {
	names []string
	idle  sync.Pool
	// inUse has a slot for each decoder at work. A client chooses how large a window a decoder
	// keeps besides the body, so there are no more of them than the processors can use: decoders
	// never wait. Addresses take turns.
	inUse *fair.Turns[netip.Prefix]
}

var codings = []*coding{
	newCoding(resetGzip, "gzip", "x-gzip"),
	newCoding(resetZlib, "deflate"),
	newCoding(resetZstd, "zstd"),
	newCoding(resetSnappy, "snappy"),
}

func newCoding(reset func(*decoder) error, names ...string) *coding {
	return &coding{
		names: names, idle: sync.Pool{New: func() any { return &decoder{reset: reset} }},
		inUse: fair.NewTurns[netip.Prefix](decodersAtWork(), decodersAtWork()),
	}
}

func decodersAtWork() int { return 2 * runtime.GOMAXPROCS(0) }

// decode decompresses a body.
func (c *coding) decode(ctx context.Context, from netip.Prefix, body []byte, into *Buffer, budget *Budget, max int) error {
	if c.inUse.AwaitFor(ctx, decoderPatience, from) != nil {
		return ErrCrowded
	}
	defer c.inUse.Give(from)
	d := c.idle.Get().(*decoder)
	defer c.idle.Put(d)
	defer d.source.Reset(nil)
	d.source.Reset(body)
	if err := d.reset(d); err != nil {
		return err
	}
	return into.Fill(d, budget, max)
}

// Decode decompresses wire, which came from an address, into a buffer, up to max bytes. It returns the coding's usual name, and
// ErrUnknownCoding, ErrTooLarge, ErrBusy, ErrCrowded (the context has ended, or no decoder was free for decoderPatience) or the
// decompressor's error.
func Decode(ctx context.Context, contentEncoding string, from netip.Prefix, wire []byte, into *Buffer, budget *Budget,
	max int) (coding string, err error) {
	c := codingOf(contentEncoding)
	switch {
	case c == nil:
		return "", ErrUnknownCoding
	case c.names[0] == "snappy" && !bytes.HasPrefix(wire, snappyStream):
		err = decodeSnappyBlock(wire, into, budget, max)
	default:
		err = c.decode(ctx, from, wire, into, budget, max)
	}
	return c.names[0], err
}

func codingOf(name string) *coding {
	for _, c := range codings {
		for _, n := range c.names {
			if strings.EqualFold(n, name) {
				return c
			}
		}
	}
	return nil
}

func resetGzip(d *decoder) error {
	if old, ok := d.Reader.(*gzip.Reader); ok {
		return old.Reset(&d.source)
	}
	fresh := new(gzip.Reader)
	d.Reader = fresh
	return fresh.Reset(&d.source)
}

// resetZlib decodes "deflate", which is the zlib format (RFC 9110, section 8.4.1.2).
func resetZlib(d *decoder) error {
	if old, ok := d.Reader.(zlib.Resetter); ok {
		return old.Reset(&d.source, nil)
	}
	fresh, err := zlib.NewReader(&d.source)
	if err == nil {
		d.Reader = fresh
	}
	return err
}

func resetZstd(d *decoder) error {
	if old, ok := d.Reader.(*zstd.Decoder); ok {
		return old.Reset(&d.source)
	}
	fresh, err := zstd.NewReader(&d.source,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err == nil {
		d.Reader = fresh
	}
	return err
}

// snappyStream begins a body in Snappy's framing ("framing_format.txt"); any other body is a single
// block.
var snappyStream = []byte("\xff\x06\x00\x00sNaPpY")

// maxSnappyBlock is the limit of the framing format.
const maxSnappyBlock = 64 << 10

func resetSnappy(d *decoder) error {
	if old, ok := d.Reader.(*s2.Reader); ok {
		old.Reset(&d.source)
		return nil
	}
	d.Reader = s2.NewReader(&d.source, s2.ReaderMaxBlockSize(maxSnappyBlock))
	return nil
}

// decodeSnappyBlock decompresses a single Snappy block, which begins with its decompressed length.
func decodeSnappyBlock(wire []byte, into *Buffer, budget *Budget, max int) error {
	size, err := s2.DecodedLen(wire)
	switch {
	case err != nil:
		return err
	case size > max:
		return ErrTooLarge
	case !into.reserve(budget, size):
		return ErrBusy
	}
	if into.B, err = s2.Decode(into.B[:size], wire); err != nil {
		into.B = into.B[:0]
	}
	return err
}
