package remotewrite

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-metrics/sluice/metric"
)

// Version is which of the two messages a request is.
type Version uint8

// The versions.
const (
	V1 Version = 1 // prometheus.WriteRequest
	V2 Version = 2 // io.prometheus.write.v2.Request
)

// Reader takes requests apart. It is meant to be kept and used for request after request, by one goroutine.
type Reader struct {
	options    Options
	version    Version
	body, rest []byte
	number     int // of the series under way
	symbols    []string
	types      map[string]Type // of 1.0, by family
	refs       []uint64
	about      string
	remembered func(name string) Type // of 1.0; nil: nothing is remembered

	Series Series
	// Fault is why Series cannot be taken; its Name, Samples and Histograms are as far as they were read.
	Fault Fault
}

// NewReader makes a reader.
func NewReader(o Options) *Reader { return &Reader{options: o, types: map[string]Type{}} }

// Fields of the requests.
const (
	seriesField1   = 1
	metadataField1 = 3
	symbolsField2  = 4
	seriesField2   = 5
)

// Reset begins with a request. Its Fault, if it has a Reason, is of the request as a whole: none of it can be read.
func (r *Reader) Reset(body []byte, v Version) Fault {
	r.Close()
	r.version, r.body, r.rest = v, body, body
	for rest := body; len(rest) > 0; {
		f, after, ok := cut(rest)
		d := noDetail
		switch {
		case !ok:
			d = badMessage
		case v == V2 && f.isBytes(symbolsField2) && len(r.symbols) == r.options.MaxSymbols:
			d = manySymbols
		case v == V2 && f.isBytes(symbolsField2):
			r.symbols = append(r.symbols, metric.Borrow(f.bytes))
		case v == V1 && f.isBytes(metadataField1):
			d = r.readFamily(f.bytes)
		}
		if d != noDetail {
			r.rest = nil
			return Fault{Reason: d.reason(), Offset: r.offset(rest), detail: d, limit: r.options.limit(d)}
		}
		rest = after
	}
	return Fault{}
}

// Close lets go of the request.
func (r *Reader) Close() {
	clear(r.symbols)
	clear(r.types)
	clear(r.Series.Labels[:cap(r.Series.Labels)])
	clear(r.Series.Histograms[:cap(r.Series.Histograms)])
	r.body, r.rest, r.number, r.symbols = nil, nil, 0, r.symbols[:0]
	r.Series = Series{Labels: r.Series.Labels[:0], Samples: r.Series.Samples[:0], Histograms: r.Series.Histograms[:0]}
	r.Fault, r.about = Fault{}, ""
}

// offset is where in the body a piece of it begins: pieces have their capacity from the body.
func (r *Reader) offset(piece []byte) int { return cap(r.body) - cap(piece) }

// Next reads the next series into Series, or why it cannot be taken into Fault; false at the end.
func (r *Reader) Next() bool {
	want := protowire.Number(seriesField1)
	if r.version == V2 {
		want = seriesField2
	}
	for len(r.rest) > 0 {
		f, rest, ok := cut(r.rest)
		if !ok { // Reset has looked
			break
		}
		r.rest = rest
		if f.isBytes(want) {
			r.number++
			r.read(f.bytes, r.number)
			return true
		}
	}
	return false
}
