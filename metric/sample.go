package metric

import (
	"bytes"
	"math"
	"time"
	"unsafe"
)

// Op is the operation of a sample on its series.
type Op uint8

// The operations. A counter takes Add or Accumulate, a gauge Assign or Shift, a set Insert, and a
// timer Observe or, with a Histogram, Accumulate or Merge.
const (
	NoOp Op = iota
	Add
	Assign
	Shift // adds to a gauge: "+n" or "-n"
	Observe
	Insert
	// Accumulate carries the client's running total. The first total of a series is the baseline. A
	// later total counts its growth. It counts in full if it has a later start time, or a later date
	// and is lower than the one before. Increments that others Add to the counter count in addition: they are part
	// of the stat total, but not of the comparison with the client's next total.
	Accumulate
	Merge // adds a histogram of the observations since the last one
	// MarkStale ends the series: it has no value any more (Prometheus' stale marker, a gauge that
	// is NaN). It applies to a series of any kind, and the next value begins a new series. Without
	// a series it is applied, too, and creates none.
	MarkStale
)

// PreAggregated reports whether the client aggregates before it pushes. Such samples arrive once
// per push interval, not once per event, and may cost more.
func (o Op) PreAggregated() bool { return o >= Accumulate }

// Forever is the TTL of a series that lives until it is deleted.
const Forever time.Duration = math.MaxInt64

// WithGroup is the TTL of a series that lives as long as its Pushgateway group.
const WithGroup time.Duration = -1

// Sample is one measurement as it arrived. Its byte slices are borrowed: they are valid until the
// called function returns. Code that retains a slice copies it.
type Sample struct {
	Name []byte
	Kind Kind
	Op   Op

	// Whole and Fraction are the number. Their sum keeps integers exact over all of int64.
	// |Fraction| < 1, and its sign is that of Whole. A number beyond int64 has Whole 0 and is in
	// Fraction.
	Whole    int64
	Fraction float64
	// Histogram replaces the number in an Accumulate or Merge of a timer.
	Histogram *Histogram
	// Started is the start time of the client's running total, in Unix nanoseconds; 0 if unknown.
	Started int64
	// Rate is the client's sample rate in (0,1]; 0 means that none was given, which is 1.
	Rate float64
	// Member is the member that an Insert adds to a set.
	Member []byte
	// Dated is the client's time of the value, in Unix nanoseconds; 0 means now. A running total or
	// a MarkStale that is older than an applied value changes nothing.
	Dated int64
	// Late makes a running total count at its date, not on arrival: the client could not send it
	// earlier.
	Late bool

	// Tags are the labels on the wire, separated by commas. Separator stands between key and value:
	// ':' for DogStatsD, '=' in other styles. No tag contains a comma.
	Tags      []byte
	Separator byte
	// Fields are labels that arrived as key and value (HTTP). A sample has Tags or Fields, not
	// both.
	Fields []Label

	// Container is DogStatsD's "c:" field and External the "e:" field: identity claims, as on the
	// wire.
	Container []byte
	External  []byte

	// Line is the line that the sample came from, if every line of the same Head and Rest gives the
	// same sample but for the value. Otherwise it is nil.
	Line *Line
	// Sender is the sender; nil if senders are not looked up, as without a cluster.
	Sender *Sender
	// Object is set if the request names the described object (a /v1 path). Nil: the labels and the
	// sender decide.
	Object *Object
	// DefaultExternal makes a sample without a claim external, not a metric of its sender.
	DefaultExternal bool
	// Arrived is the arrival time in Unix nanoseconds of a sample that was pending; 0 means now.
	Arrived int64
	// Read is when a running total was read, in Unix nanoseconds; 0: unknown. One that fell is no reset if another replica
	// has told of a total that came after it was read.
	Read int64
	// TTL is how long the series lives without a sample; 0 means the default of its object.
	TTL time.Duration
}

func (s *Sample) Float() float64 { return float64(s.Whole) + s.Fraction }

// Number is the number for readers: exact for a decimal of up to nine places. Further places are
// rounded unless a float64 is more precise.
func (s *Sample) Number() Number {
	if s.Fraction == 0 {
		return Int(s.Whole)
	}
	if s.Whole >= coarse || s.Whole <= -coarse || isNanos(s.Fraction) {
		return Decimal(s.Whole, int64(math.Round(s.Fraction*Nanos)))
	}
	return Float(s.Float())
}

// isNanos reports whether a fraction is the float64 nearest to a whole number of billionths.
func isNanos(fraction float64) bool {
	return math.Abs(fraction) < 1 && math.Round(fraction*Nanos)/Nanos == fraction
}

// SetFloat sets the number. A large number with a fraction is split by its shortest decimal form,
// so that 1234567890.123456 has the fraction 0.123456.
func (s *Sample) SetFloat(v float64) {
	whole, fraction := math.Modf(v)
	if !(math.Abs(whole) < 1<<63) {
		s.Whole, s.Fraction = 0, v
		return
	}
	if fraction != 0 && math.Abs(whole) >= coarse {
		n := shortest(v)
		s.Whole, s.Fraction = n.whole, float64(n.nano)/Nanos
		return
	}
	s.Whole, s.Fraction = int64(whole), fraction
}

// Weight is the number of observations that the sample stands for: 1/Rate.
func (s *Sample) Weight() float64 {
	if s.Rate == 0 || s.Rate == 1 {
		return 1
	}
	return 1 / s.Rate
}

// MaxWeight is the largest weight of a timer's sample, in observations (a rate of a millionth). It keeps bins from
// overflowing.
const MaxWeight = 1 << 20

// MaxGaugeAge is the age from which a gauge's value is outdated: Prometheus' lookback.
const MaxGaugeAge = 5 * time.Minute

// Outdated reports whether the sample sets a gauge to a value older than MaxGaugeAge.
func (s *Sample) Outdated(now time.Time) bool {
	// The date may be in whole seconds, rounded down.
	return s.Dated != 0 && s.Op == Assign && s.Dated < now.Add(-MaxGaugeAge).Truncate(time.Second).UnixNano()
}

// Date returns the client's time of the value; only if Dated is set.
func (s *Sample) Date() time.Time { return time.Unix(0, s.Dated) }

var hash = []byte{'#'}

// AppendLabels appends the labels to dst in the order of the wire and skips empty pieces. It copies
// nothing: the strings are borrowed like the sample's bytes. PHP's DogStatsD client writes a "#" before each
// tag, as in "#a:1,#b:2".
func (s *Sample) AppendLabels(dst []Label) []Label {
	dst = append(dst, s.Fields...)
	for rest := s.Tags; len(rest) > 0; {
		tag := rest
		if i := bytes.IndexByte(rest, ','); i >= 0 {
			tag, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		if tag = bytes.TrimPrefix(tag, hash); len(tag) == 0 {
			continue
		}
		key, value := tag, []byte(nil)
		if i := bytes.IndexByte(tag, s.Separator); i >= 0 {
			key, value = tag[:i], tag[i+1:]
		}
		if len(key) > 0 {
			dst = append(dst, Label{Borrow(key), Borrow(value)})
		}
	}
	return dst
}

// Borrow views bytes as a string without a copy; the string lives as long as the bytes.
func Borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Description identifies the series of a sample. The strings and labels are borrowed like the
// sample's.
type Description struct {
	Object Object
	// Labels is sorted, each key once, without the labels that named the object.
	Labels []Label
	// ObjectLifetime says that the cluster view reports the end of the object: the series lives as
	// long as the object, with or without samples.
	ObjectLifetime bool
	// Retainable says that the strings of Object are immutable and may be retained; otherwise they
	// are borrowed.
	Retainable bool
}

// Line is a StatsD line that is cut into pieces but not parsed. Most lines differ from an earlier
// line in the value only: for those the pieces suffice to find the series. The bytes are borrowed
// like a Sample's.
//
// Of remote write, the Head is the labels of a series as on the wire; the other pieces are empty.
type Line struct {
	// Text is the whole line without its end.
	Text []byte
	// Head is the name, before the first ":". Value stands between that and the first "|". Rest
	// follows: type, rate, tags and so on.
	Head, Value, Rest []byte
	// Numeric says that Value is an unsigned decimal number: Whole and Fraction, as in a Sample.
	Numeric  bool
	Whole    int64
	Fraction float64
	// Dialect distinguishes grammars in which one text has different meanings.
	Dialect uint8
	// DefaultExternal and Sender are not part of the line, as in a Sample.
	DefaultExternal bool
	Sender          *Sender
}

// Object is the Kubernetes object that a series describes.
type Object struct {
	// Resource is the canonical group-resource: "pods", "ingresses.networking.k8s.io",
	// "namespaces". Empty: the series is external and describes no object.
	Resource string
	// Namespace is empty for cluster-scoped objects and for cluster-wide externals. A Namespace
	// object is cluster-scoped: Resource "namespaces", Name the namespace.
	Namespace string
	// Name is empty for externals.
	Name string
	// UID distinguishes a pod from a later pod of the same name; empty without a cluster.
	UID string
}

// External reports whether the series describes no object.
func (o Object) External() bool { return o.Resource == "" }

// InNamespace is the namespace that the object is in or, as a Namespace, is; empty: none.
func (o Object) InNamespace() string {
	if o.Resource == "namespaces" {
		return o.Name
	}
	return o.Namespace
}

// String prints the object for people: "pods/web-1 in shop", "nodes/a", "external in shop".
func (o Object) String() string {
	s := "external"
	if !o.External() {
		s = o.Resource + "/" + o.Name
	}
	if o.Namespace != "" {
		s += " in " + o.Namespace
	}
	return s
}

// Workload is the controller of a pod: a StatefulSet, DaemonSet or Job. For a pod of a Deployment
// it is the Deployment, not the ReplicaSet.
type Workload struct {
	Kind, Name, UID string
	// Group is the API group of the kind; empty if it is not known.
	Group string
}
