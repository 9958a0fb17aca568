package push

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// maxZstdWindow bounds what one zstd decoder holds besides the body; 8 MiB is what RFC 8878 asks all to support.
const maxZstdWindow = 8 << 20

// decoder is a decompressor that can be used again. It reads from source, which is emptied before the
// decoder goes back to its pool, so that an idle one holds nobody's body.
type decoder struct {
	io.Reader
	source bytes.Reader
	// reset begins with what is in source.
	reset func(*decoder) error
}

// coding is a content coding (RFC 9110, section 8.4.1) with its idle decoders.
type coding struct {
	names []string
	idle  sync.Pool
	// turns has a place for each decoder at work. A client says how large a window one keeps besides the body, so there are no
	// more than processors can use: nothing that they do waits.
	turns chan struct{}
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
		turns: make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
	}
}

// decode decompresses a body.
func (c *coding) decode(body []byte, into *buffer, budget *budget, max int) error {
	c.turns <- struct{}{}
	defer func() { <-c.turns }()
	d := c.idle.Get().(*decoder)
	defer c.idle.Put(d)
	defer d.source.Reset(nil)
	d.source.Reset(body)
	if err := d.reset(d); err != nil {
		return err
	}
	return into.fill(d, budget, max)
}

// decode takes the content coding off the body that lies in x.wire.
func (x *exchange) decode(name []byte) ([]byte, *fault) {
	if said := x.http.Request.Header.PeekAll(fasthttp.HeaderContentEncoding); len(said) > 1 {
		name = bytes.Join(said, []byte(", ")) // as one list (RFC 9110, section 5.3), which no coding of ours is
	}
	if len(name) == 0 || bytes.EqualFold(name, []byte("identity")) {
		return x.wire.b, nil
	}
	if bytes.EqualFold(name, []byte("snappy")) && !bytes.HasPrefix(x.wire.b, snappyStream) {
		return x.decodeBlock()
	}
	c := codingOf(string(name))
	if c == nil {
		f := badRequest("Content-Encoding %q is none of gzip, deflate, snappy, zstd", clip(name))
		f.status, f.reason = fasthttp.StatusUnsupportedMediaType, "encoding"
		return nil, f
	}
	switch err := c.decode(x.wire.b, &x.plain, &x.server.budget, x.server.cfg.maxDecompressed()); {
	case err == nil:
		return x.plain.b, nil
	case errors.Is(err, errTooLarge):
		f := x.tooLarge("the decompressed body", x.server.cfg.maxDecompressed())
		f.close = false // the body was read to its end
		return nil, f
	case errors.Is(err, errBusy):
		f := x.busy()
		f.close = false
		return nil, f
	default:
		return nil, refused(metric.Malformed, "the body is not what Content-Encoding says, %s: %q", c.names[0], err.Error())
	}
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

// resetZlib: "deflate" is the zlib format (RFC 9110, section 8.4.1.2).
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

// snappyStream is how a body in Snappy's framing begins ("framing_format.txt"); one without it is a single block.
var snappyStream = []byte("\xff\x06\x00\x00sNaPpY")

// maxSnappyBlock is what the framing allows.
const maxSnappyBlock = 64 << 10

func resetSnappy(d *decoder) error {
	if old, ok := d.Reader.(*s2.Reader); ok {
		old.Reset(&d.source)
		return nil
	}
	d.Reader = s2.NewReader(&d.source, s2.ReaderMaxBlockSize(maxSnappyBlock))
	return nil
}

// decodeBlock decompresses a single Snappy block, which says first how much it is.
func (x *exchange) decodeBlock() ([]byte, *fault) {
	max := x.server.cfg.maxDecompressed()
	size, err := s2.DecodedLen(x.wire.b)
	switch {
	case err == nil && size > max:
		f := x.tooLarge("the decompressed body", max)
		f.close = false // the body was read to its end
		return nil, f
	case err == nil && !x.plain.reserve(&x.server.budget, size):
		f := x.busy()
		f.close = false
		return nil, f
	case err == nil:
		x.plain.b, err = s2.Decode(x.plain.b[:size], x.wire.b)
	}
	if err != nil {
		x.plain.b = x.plain.b[:0]
		return nil, refused(metric.Malformed, "the body is not what Content-Encoding says, snappy: %q", err.Error())
	}
	return x.plain.b, nil
}
