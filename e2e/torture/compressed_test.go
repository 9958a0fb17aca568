package torture

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"io"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// compressedBombs are a gibibyte of zeros in every coding, to every path, and blocks with a wrong
// length.
func compressedBombs(t *testing.T) []bomb {
	t.Helper()
	part := make([]byte, 16*mebibyte)
	squeeze := func(open func(io.Writer) io.WriteCloser) []byte {
		var into bytes.Buffer
		w := open(&into)
		_, err := w.Write(part)
		must(t, err, "compress")
		must(t, w.Close(), "compress")
		return into.Bytes()
	}
	repeat := 1 << 10 / 16 // all codings but deflate may be several streams, one behind the other
	bodies := map[string][]byte{
		"gzip":    bytes.Repeat(squeeze(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }), repeat),
		"deflate": squeeze(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"zstd": bytes.Repeat(squeeze(func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w)
			must(t, err, "compress")
			return z
		}), repeat),
		"snappy": squeeze(func(w io.Writer) io.WriteCloser { return snappy.NewBufferedWriter(w) }),
	}
	var bombs []bomb
	for _, path := range []string{"/v1/samples", "/v1/statsd", "/metrics/job/bomb", "/v1/metrics", "/api/v1/write"} {
		contentType := ""
		if path == "/v1/metrics" || path == "/api/v1/write" {
			contentType = protobuf
		}
		add := func(encoding string, body []byte) {
			bombs = append(bombs, post(path, contentType, encoding, func() io.Reader { return bytes.NewReader(body) }))
		}
		for encoding, body := range bodies {
			add(encoding, body)
		}
		add("snappy", snappy.Encode(nil, part))
		add("snappy", append(binary.AppendUvarint(nil, 1<<32-1), "short"...))
	}
	return bombs
}

// snappyLiteral is a block of Snappy that contains a text.
func snappyLiteral(s string) string { return string(snappy.Encode(nil, []byte(s))) }
