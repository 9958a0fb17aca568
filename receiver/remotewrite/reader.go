package remotewrite

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

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

// Type is what metadata say that a metric is. Both messages number the types alike.
type Type uint8

// The types.
const (
	NoType Type = iota
	CounterType
	GaugeType
	HistogramType
	GaugeHistogramType
	SummaryType
	InfoType
	StateSetType
)

// Sample is a value of a series. Times are in Unix milliseconds; Started is 0 where it was not told.
type Sample struct {
	Value              float64
	Timestamp, Started int64
}

// Counts are elements of a request.
type Counts struct{ Samples, Histograms int }

// Series is one message TimeSeries. All of it is borrowed, until the next one is read.
type Series struct {
	Name   string
	Labels []metric.Label // sorted, each once, without __name__ and what else is reserved
	Type   Type           // NoType: nobody said
	// Samples and Histograms are in the order of their times. Histograms are messages: see Reader.Histogram.
	Samples    []Sample
	Histograms [][]byte
	Has        Counts // also of those that are too many
	Exemplars  int

	message    []byte
	number     int
	labelBytes int
	created    int64 // when all of it began that says nothing itself
}

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

// readFamily takes one MetricMetadata of 1.0.
func (r *Reader) readFamily(message []byte) detail {
	name, t := "", NoType
	for len(message) > 0 {
		f, rest, ok := cut(message)
		switch {
		case !ok:
			return badMessage
		case f.isVarint(1):
			t = typeOf(f.value)
		case f.isBytes(2):
			name = metric.Borrow(f.bytes)
		}
		message = rest
	}
	if len(r.types) == r.options.MaxMetadata {
		return manyMetadata
	}
	r.types[name] = t
	return noDetail
}

// typeOf is a type by its number. One that nobody knows yet says nothing.
func typeOf(number uint64) Type {
	if number > uint64(StateSetType) {
		return NoType
	}
	return Type(number)
}

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

func (r *Reader) read(message []byte, number int) {
	s := &r.Series
	*s = Series{Labels: s.Labels[:0], Samples: s.Samples[:0], Histograms: s.Histograms[:0], message: message, number: number}
	r.Fault, r.refs, r.about = Fault{}, r.refs[:0], ""
	d := r.readFields(message)
	if d == noDetail {
		d = r.readReferences()
	}
	if d == noDetail {
		d = r.finish()
	}
	if d != noDetail {
		r.fail(d)
	}
}

func (r *Reader) fail(d detail) {
	s := &r.Series
	r.Fault = Fault{Reason: d.reason(), Series: s.number, Offset: r.offset(s.message), detail: d, name: s.Name, about: r.about, limit: r.options.limit(d)}
}

// readFields reads all fields, to count what is there, and returns what was wrong first.
func (r *Reader) readFields(message []byte) detail {
	first, about := noDetail, ""
	for len(message) > 0 {
		f, rest, ok := cut(message)
		if !ok {
			return badMessage
		}
		d := noDetail
		if r.version == V1 {
			d = r.readField1(&f)
		} else {
			d = r.readField2(&f)
		}
		if first == noDetail {
			first, about = d, r.about
		}
		message = rest
	}
	r.about = about
	return first
}

func (r *Reader) readField1(f *field) detail {
	switch {
	case f.isBytes(1):
		return r.readLabel(f.bytes)
	case f.isBytes(2):
		return r.readSample(f.bytes)
	case f.isBytes(3):
		r.Series.Exemplars++
	case f.isBytes(4):
		return r.addHistogram(f.bytes)
	}
	return noDetail
}

func (r *Reader) readField2(f *field) (d detail) {
	switch {
	case f.isBytes(1), f.isVarint(1):
		r.refs, d = appendVarints(r.refs, f, 2*r.options.MaxLabels)
		if d == manyBuckets {
			d = manyLabels
		}
		return d
	case f.isBytes(2):
		return r.readSample(f.bytes)
	case f.isBytes(3):
		return r.addHistogram(f.bytes)
	case f.isBytes(4):
		r.Series.Exemplars++
	case f.isBytes(5):
		return r.readMetadata(f.bytes)
	case f.isVarint(6): // created_timestamp of the drafts of 2.0, which clients in use still have; reserved since
		r.Series.created = int64(f.value)
	}
	return noDetail
}

func (r *Reader) readMetadata(message []byte) detail {
	for len(message) > 0 {
		f, rest, ok := cut(message)
		if !ok {
			return badMessage
		}
		if f.isVarint(1) {
			r.Series.Type = typeOf(f.value)
		}
		message = rest
	}
	return noDetail
}

func (r *Reader) readSample(message []byte) detail {
	r.Series.Has.Samples++
	s := Sample{}
	for len(message) > 0 {
		f, rest, ok := cut(message)
		switch {
		case !ok:
			return badMessage
		case f.isDouble(1):
			s.Value = f.double()
		case f.isVarint(2):
			s.Timestamp = int64(f.value)
		case f.isVarint(3) && r.version == V2:
			s.Started = int64(f.value)
		}
		message = rest
	}
	if len(r.Series.Samples) == r.options.MaxSamples {
		return manySamples
	}
	r.Series.Samples = append(r.Series.Samples, s)
	return noDetail
}

func (r *Reader) addHistogram(message []byte) detail {
	if r.Series.Has.Histograms++; len(r.Series.Histograms) == r.options.MaxSamples {
		return manySamples
	}
	r.Series.Histograms = append(r.Series.Histograms, message)
	return noDetail
}

// readLabel takes a message Label of 1.0.
func (r *Reader) readLabel(message []byte) detail {
	l := metric.Label{}
	for len(message) > 0 {
		f, rest, ok := cut(message)
		switch {
		case !ok:
			return badMessage
		case f.isBytes(1):
			l.Key = metric.Borrow(f.bytes)
		case f.isBytes(2):
			l.Value = metric.Borrow(f.bytes)
		}
		message = rest
	}
	return r.addLabel(l)
}

// readReferences takes the labels of 2.0.
func (r *Reader) readReferences() detail {
	if len(r.refs)%2 != 0 {
		return oddReferences
	}
	for i := 0; i < len(r.refs); i += 2 {
		// The field is of 32 bits: what is more of a number a decoder drops.
		key, value := uint32(r.refs[i]), uint32(r.refs[i+1])
		if int64(max(key, value)) >= int64(len(r.symbols)) {
			return badReference
		}
		if d := r.addLabel(metric.Label{Key: r.symbols[key], Value: r.symbols[value]}); d != noDetail {
			return d
		}
	}
	return noDetail
}

const (
	nameLabel = "__name__"
	typeLabel = "__type__"
	reserved  = "__"
)

// addLabel takes a label. One without a value is, by Prometheus' data model, none. Of the reserved ones, those of the name
// and the type say what they say, and the others are a system's own.
func (r *Reader) addLabel(l metric.Label) detail {
	s := &r.Series
	r.about = l.Key
	s.labelBytes += len(l.Key) + len(l.Value)
	switch {
	case l.Key == "":
		return emptyKey
	case l.Value == "":
		return noDetail
	case len(l.Key) > r.options.MaxLabelBytes || len(l.Value) > r.options.MaxLabelBytes:
		return longLabel
	case s.labelBytes > r.options.MaxSeriesBytes:
		return longLabels
	case !utf8.ValidString(l.Key) || !utf8.ValidString(l.Value):
		return notUTF8
	case l.Key == nameLabel && s.Name != "":
		return sameKey
	case l.Key == nameLabel:
		s.Name = l.Value
		return noDetail
	case l.Key == typeLabel && s.Type == NoType:
		s.Type = typesByName[l.Value]
		return noDetail
	case strings.HasPrefix(l.Key, reserved):
		return noDetail
	case len(s.Labels) == r.options.MaxLabels:
		return manyLabels
	}
	s.Labels = append(s.Labels, l)
	return noDetail
}

// typesByName are the values of __type__, as Prometheus writes them with its feature type-and-unit-labels.
var typesByName = map[string]Type{
	"counter": CounterType, "gauge": GaugeType, "histogram": HistogramType, "gaugehistogram": GaugeHistogramType,
	"summary": SummaryType, "info": InfoType, "stateset": StateSetType,
}

// finish sorts what should be sorted, and says what is missing.
func (r *Reader) finish() detail {
	s := &r.Series
	byKey := func(a, b metric.Label) int { return strings.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(s.Labels, byKey) {
		slices.SortStableFunc(s.Labels, byKey)
	}
	for i := 1; i < len(s.Labels); i++ {
		if s.Labels[i].Key == s.Labels[i-1].Key {
			r.about = s.Labels[i].Key
			return sameKey
		}
	}
	byTime := func(a, b Sample) int { return cmp.Compare(a.Timestamp, b.Timestamp) }
	if !slices.IsSortedFunc(s.Samples, byTime) {
		slices.SortStableFunc(s.Samples, byTime)
	}
	switch {
	case s.Name == "":
		return noName
	case len(s.Samples)+len(s.Histograms)+s.Exemplars == 0:
		return nothingInIt
	}
	if r.version == V1 && s.Type == NoType {
		s.Type = r.familyType(s.Name)
	}
	return noDetail
}

// familyType is what the request's metadata say of a metric, which may be a part of its family.
func (r *Reader) familyType(name string) Type {
	if len(r.types) == 0 {
		return NoType
	}
	if t, ok := r.types[name]; ok {
		return t
	}
	for _, suffix := range [...]string{"_bucket", "_count", "_sum", "_total", "_created"} {
		if family, ok := strings.CutSuffix(name, suffix); ok {
			return r.types[family]
		}
	}
	return NoType
}
