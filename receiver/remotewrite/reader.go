package remotewrite

import (
	"github.com/sluice-metrics/sluice/metric"
	"google.golang.org/protobuf/encoding/protowire"
)

// Version is the version of the request's message.
type Version uint8

// The versions.
const (
	V1 Version = 1 // prometheus.WriteRequest
	V2 Version = 2 // io.prometheus.write.v2.Request
)

// Reader splits requests into series. One goroutine keeps it and uses it for request after request.
type Reader struct {
	options    Options
	version    Version
	body, rest []byte
	number     int // of the current series
	symbols    []string
	types      map[string]Type // of 1.0, by family
	refs       []uint64
	about      string
	remembered func(name string) Type // of 1.0; may be nil
	spelled    []byte                 // labels of 2.0, written out
	typed      typedName

	Series Series
	// Fault says why Series is rejected; Series then has what was read before the fault.
	Fault Fault
}

func NewReader(o Options) *Reader { return &Reader{options: o, types: map[string]Type{}} }

// Fields of the requests.
const (
	seriesField1   = 1
	metadataField1 = 3
	symbolsField2  = 4
	seriesField2   = 5
)

// Reset starts a request. A Fault that has a Reason concerns the whole request.
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

// Close drops the request.
func (r *Reader) Close() {
	clear(r.symbols)
	clear(r.types)
	clear(r.Series.Labels[:cap(r.Series.Labels)])
	clear(r.Series.Histograms[:cap(r.Series.Histograms)])
	r.body, r.rest, r.number, r.symbols = nil, nil, 0, r.symbols[:0]
	r.Series = Series{Labels: r.Series.Labels[:0], Samples: r.Series.Samples[:0], Histograms: r.Series.Histograms[:0]}
	r.Fault, r.about, r.typed = Fault{}, "", typedName{}
	if cap(r.spelled) > maxKeptSpelled {
		r.spelled = nil
	}
}

// maxKeptSpelled is the capacity for labels that is kept from request to request.
const maxKeptSpelled = 2 * mostAhead * maxSpelled

// offset is the start of a piece in the body: the capacity of a piece reaches to the end of the
// body.
func (r *Reader) offset(piece []byte) int { return cap(r.body) - cap(piece) }

// cutSeries cuts the next series off the request, and returns false at the end.
func (r *Reader) cutSeries(e *skimmed) bool {
	want := protowire.Number(seriesField1)
	if r.version == V2 {
		want = seriesField2
	}
	for len(r.rest) > 0 {
		f, rest, ok := cut(r.rest)
		if !ok { // cannot happen after Reset
			break
		}
		r.rest = rest
		if f.isBytes(want) {
			r.number++
			e.message, e.number, e.plain, e.unknown = f.bytes, r.number, false, false
			return true
		}
	}
	return false
}

// Options limit the content of a request. A fault names the limit that is exceeded.
type Options struct {
	// MaxLabels limits the labels of a series, MaxLabelBytes each key and each value,
	// MaxSeriesBytes all of them together: in 2.0, one byte of a request can refer to a long label.
	MaxLabels, MaxLabelBytes, MaxSeriesBytes int
	// MaxSamples limits the samples of one series message, and its histograms.
	MaxSamples int
	// MaxSymbols limits a request's symbols, MaxMetadata its metadata (1.0).
	MaxSymbols, MaxMetadata int
	// MaxBuckets limits the spans, and the buckets of each sign, of one histogram.
	MaxBuckets int
	// MaxParts limits the samples of a request that are parts of classic histograms and summaries.
	MaxParts int
}

// MostMemory is how much a Converter may take for a body of n bytes, beside it: a part may be two bytes of it.
func (o *Options) MostMemory(n int) int { return min(n/2, o.MaxParts) * partBytes }

// DefaultOptions accept the requests of a Prometheus whose settings are many times the default.
func DefaultOptions() Options {
	return Options{
		MaxLabels:      64,
		MaxLabelBytes:  1024,
		MaxSeriesBytes: 8 << 10,
		MaxSamples:     1 << 13,
		MaxSymbols:     1 << 17,
		MaxMetadata:    1 << 14,
		MaxBuckets:     1 << 12,
		MaxParts:       1 << 16,
	}
}
