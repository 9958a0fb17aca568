package metric

import (
	"bytes"
	"math"
	"time"
	"unsafe"
)

// Op is what a sample does to its series.
type Op uint8

// The ops. Each Kind takes its own: a counter Add or Accumulate, a gauge Assign or Shift, a set Insert, a timer Observe,
// or, with a Histogram, Accumulate or Merge.
const (
	NoOp Op = iota
	Add
	Assign
	Shift // a gauge's +n or -n
	Observe
	Insert
	// Accumulate brings the client's own running total. The first one of a series is where it begins; later what it has grown by
	// counts, and all of it where it is lower than before or was Started later. What others Add to the counter counts
	// beside it: it is in what total reads, and not in what the client's next total is compared with.
	Accumulate
	Merge // a histogram of what came since the last one
	// Vanish says that the series has no value any more (Prometheus' stale marker, a gauge that is NaN): it goes, of whatever
	// kind it is, and the next value begins a new one. It is applied also where there is no such series, and makes none.
	MarkStale
)

// Pushed reports whether the op is one of those that come once a push, not once a request: they may cost more.
func (o Op) PreAggregated() bool { return o >= Accumulate }

// Forever is a TTL of a series that lives until it is deleted.
const Forever time.Duration = math.MaxInt64

// Sample is one observation as it arrived. Its byte slices are borrowed: they are valid until the call
// that was handed the sample returns, and whoever keeps something copies it.
type Sample struct {
	Name []byte
	Kind Kind
	Op   Op

	// Whole and Fraction are the number, in two parts so that integers stay exact over all of int64:
	// it is their sum, |Fraction| < 1 and of the same sign as Whole. A number beyond int64 has Whole 0 and all in Fraction.
	Whole    int64
	Fraction float64
	// Histogram is what an Accumulate or a Merge of a timer brings, in place of a number.
	Histogram *Histogram
	// Started is when the client began its running total, in Unix nanoseconds; 0: not known.
	Started int64
	// Rate is the client's sample rate in (0,1]; 0 means that none was given, which is 1.
	Rate float64
	// Member is what an Insert inserts.
	Member []byte
	// Timestamp is when the client says the value was taken, in Unix seconds; 0 means now. A running total, or a Vanish, that is
	// older than a value that was taken changes nothing.
	Timestamp int64
	// Late says that a running total counts at its Timestamp, not when it came: its client could not send it before.
	Late bool

	// Labels as they stand on the wire: pieces between commas, each key and value apart by Separator
	// (':' for DogStatsD; '=' in other styles). Tags never hold a comma.
	Tags      []byte
	Separator byte
	// Fields are labels that came apart already (HTTP). A sample has Tags or Fields, not both.
	Fields []Label

	// Container is DogStatsD's "c:" field, External its "e:" field: identity claims, as on the wire.
	Container []byte
	External  []byte

	// Line is the line that it came in, where a line of the same Head and Rest means the same but for its value. Nil: there is
	// none such.
	Line *Line
	// Sender is who sent the sample; nil where nobody asks, as without a cluster.
	Sender *Sender
	// About is set where the way the sample came says what it describes (a /v1 path). Nil: the labels
	// and the sender decide.
	Object *Object
	// AboutExternal says that what comes this way without a claim is not about who sent it.
	DefaultExternal bool
	// Arrived is when the sample came, in Unix nanoseconds, where that is not now: it was held until it was known
	// whose it is. 0: now.
	Arrived int64
	// TTL is how long the series lives without a sample; 0 means the default for its object.
	TTL time.Duration
}

// Float is the sample's number as a float64.
func (s *Sample) Float() float64 { return float64(s.Whole) + s.Fraction }

// Number is the sample's number as readers are told it: exact where it is a decimal with up to nine places. More places are
// rounded off where no float64 has them.
func (s *Sample) Number() Number {
	if s.Fraction == 0 {
		return Int(s.Whole)
	}
	if s.Whole >= coarse || s.Whole <= -coarse || isNanos(s.Fraction) {
		return Decimal(s.Whole, int64(math.Round(s.Fraction*Nanos)))
	}
	return Float(s.Float())
}

// isNanos reports whether a fraction is the nearest float64 to so many billionths.
func isNanos(fraction float64) bool {
	return math.Abs(fraction) < 1 && math.Round(fraction*Nanos)/Nanos == fraction
}

// SetFloat stores a number in its two parts. Of a large number with a fraction the shortest decimal form is taken, so that
// 1234567890.123456 has the fraction 0.123456.
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

// Weight is how many observations the sample stands for: 1/Rate.
func (s *Sample) Weight() float64 {
	if s.Rate == 0 || s.Rate == 1 {
		return 1
	}
	return 1 / s.Rate
}

// MaxGaugeAge is how old a gauge's value may be and still say what is: Prometheus' lookback.
const MaxGaugeAge = 5 * time.Minute

// Outdated reports whether the sample sets a gauge to a value that its client dates further back than MaxGaugeAge.
func (s *Sample) Outdated(now time.Time) bool {
	return s.Timestamp != 0 && s.Op == Assign && s.Timestamp < now.Add(-MaxGaugeAge).Unix()
}

// AppendLabels appends the sample's labels to dst in the order of the wire, empty pieces skipped, nothing
// copied: the strings are borrowed like the sample's bytes.
func (s *Sample) AppendLabels(dst []Label) []Label {
	dst = append(dst, s.Fields...)
	for rest := s.Tags; len(rest) > 0; {
		tag := rest
		if i := bytes.IndexByte(rest, ','); i >= 0 {
			tag, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		if len(tag) == 0 {
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

// Borrow views bytes as a string without copying: as short-lived as the bytes.
func Borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Description says which series a sample belongs to. Its strings and labels are borrowed like the sample's.
type Description struct {
	Object Object
	// Labels is sorted, each key once, without the labels that decided the object.
	Labels []Label
	// Bound says that the cluster tells when the object ends: the series lives as long, whether samples come or not.
	ObjectLifetime bool
	// Lasting says that the strings of Object are never changed and may be kept; else they are borrowed.
	Retainable bool
}

// Line is a line of StatsD, cut into pieces but not parsed. Most lines differ from one that came before in their value only:
// those need no more than this to find their series. Its bytes are borrowed like a Sample's.
type Line struct {
	// Text is all of it, without its end.
	Text []byte
	// Head is what stands before the first ":", the name; Value what stands between that and the first "|"; Rest is what stands
	// behind it: type, rate, tags and so on.
	Head, Value, Rest []byte
	// Numeric says that Value is a decimal number without a sign: Whole and Fraction, as in a Sample.
	Numeric  bool
	Whole    int64
	Fraction float64
	// Dialect tells apart the grammars by which one text means different things.
	Dialect uint8
	// AboutExternal and Sender are what no line says, as in a Sample.
	DefaultExternal bool
	Sender          *Sender
}
