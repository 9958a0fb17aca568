package remotewrite

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
)

// Sample is a value of a series. Times are in Unix milliseconds; Started is 0 if unknown.
type Sample struct {
	Value              float64
	Timestamp, Started int64
}

// Counts are numbers of elements of a request.
type Counts struct{ Samples, Histograms int }

// Series is one message TimeSeries. It is borrowed until the next one is read.
type Series struct {
	Name   string
	Labels []metric.Label // sorted and distinct, without __name__ and other reserved labels
	Type   Type           // NoType: unknown
	// Samples are sorted by time. Histograms are encoded messages in the order of the request;
	// readHistogram reads them one by one.
	Samples    []Sample
	Histograms [][]byte
	Has        Counts // including elements over the limit
	Exemplars  int
	// Guessed says that the request does not contain the type: it is from another request, or
	// NoType.
	Guessed bool

	message    []byte
	number     int
	labelBytes int
	created    int64 // start time of elements without their own
}

// read reads a series into Series, or the reason to reject it into Fault.
func (r *Reader) read(e *skimmed) {
	s := &r.Series
	*s = Series{
		Labels: s.Labels[:0], Samples: s.Samples[:0], Histograms: s.Histograms[:0],
		message: e.message, number: e.number,
	}
	r.Fault, r.refs, r.about = Fault{}, r.refs[:0], ""
	d := r.readFields(e.message)
	if d == noDetail {
		d = r.readReferences()
	}
	if d == noDetail {
		d = r.finish(e)
	}
	if d != noDetail {
		r.fail(d)
	}
}

func (r *Reader) fail(d detail) {
	s := &r.Series
	r.Fault = Fault{Reason: d.reason(), Series: s.number, Offset: r.offset(s.message), detail: d, name: s.Name,
		about: r.about, limit: r.options.limit(d)}
}

// readFields reads all fields, to count the elements, and returns the first fault.
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
		return readType(f.bytes, &r.Series.Type)
	case f.isVarint(6): // created_timestamp of the drafts of 2.0, reserved since; some clients send it
		r.Series.created = int64(f.value)
	}
	return noDetail
}

func (r *Reader) readSample(message []byte) detail {
	r.Series.Has.Samples++
	var s Sample
	if !s.read(message, r.version) {
		return badMessage
	}
	if len(r.Series.Samples) == r.options.MaxSamples {
		return manySamples
	}
	r.Series.Samples = append(r.Series.Samples, s)
	return noDetail
}

// read reads a message Sample. It returns false if the message is damaged.
func (s *Sample) read(message []byte, v Version) bool {
	*s = Sample{}
	for len(message) > 0 {
		f, rest, ok := cut(message)
		switch {
		case !ok:
			return false
		case f.isDouble(1):
			s.Value = f.double()
		case f.isVarint(2):
			s.Timestamp = int64(f.value)
		case f.isVarint(3) && v == V2:
			s.Started = int64(f.value)
		}
		message = rest
	}
	return true
}

func (r *Reader) addHistogram(message []byte) detail {
	if r.Series.Has.Histograms++; len(r.Series.Histograms) == r.options.MaxSamples {
		return manySamples
	}
	r.Series.Histograms = append(r.Series.Histograms, message)
	return noDetail
}

// finish sorts labels and samples, and checks that nothing is missing.
func (r *Reader) finish(e *skimmed) detail {
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
	switch {
	case s.Type != NoType:
	case e.plain: // its line was looked up as that type
		s.Type, s.Guessed = e.of, e.guessed
	default:
		s.Type, s.Guessed = r.typeOf(s.Name)
	}
	return noDetail
}

// readLabel reads a message Label of 1.0.
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

// readReferences reads the labels of 2.0.
func (r *Reader) readReferences() detail {
	if len(r.refs)%2 != 0 {
		return oddReferences
	}
	for i := 0; i < len(r.refs); i += 2 {
		// The field has 32 bits: decoders drop higher bits.
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

// addLabel adds a label. In Prometheus' data model, a label without a value does not exist. Of the
// reserved labels, those of the name and the type are used; the others are internal to the sender.
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
	case metric.CheckLabel(l) != metric.Applied && l.Key != nameLabel: // a name has its own message
		return controlLabel
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
