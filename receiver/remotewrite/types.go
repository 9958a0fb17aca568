package remotewrite

import (
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// Type is a metric's type in metadata. Both versions number the types alike.
type Type uint8

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

// typesByName are the values of __type__, which Prometheus writes with the feature
// type-and-unit-labels.
var typesByName = map[string]Type{
	"counter": CounterType, "gauge": GaugeType, "histogram": HistogramType, "gaugehistogram": GaugeHistogramType,
	"summary": SummaryType, "info": InfoType, "stateset": StateSetType,
}

// readFamily reads one MetricMetadata of 1.0.
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

// typeOf is a type by number. An unknown number is NoType.
func typeOf(number uint64) Type {
	if number > uint64(StateSetType) {
		return NoType
	}
	return Type(number)
}

// readType reads the type in a Metadata of 2.0.
func readType(message []byte, t *Type) detail {
	for len(message) > 0 {
		f, rest, ok := cut(message)
		if !ok {
			return badMessage
		}
		if f.isVarint(1) {
			*t = typeOf(f.value)
		}
		message = rest
	}
	return noDetail
}

// typedName is a name with its type: consecutive series often have one name.
type typedName struct {
	name    string
	of      Type
	guessed bool
}

// typeOf is the type of a metric apart from its series. Guessed says that the request does not
// contain it.
func (r *Reader) typeOf(name string) (t Type, guessed bool) {
	if r.version == V2 {
		return NoType, true
	}
	if r.typed.name != name {
		t = r.familyType(name)
		if guessed = t == NoType; guessed && r.remembered != nil {
			t = r.remembered(name)
		}
		r.typed = typedName{name, t, guessed}
	}
	return r.typed.of, r.typed.guessed
}

// familyType is the type of a metric in the request's metadata; the metric may be a part of its
// family.
func (r *Reader) familyType(name string) Type {
	if len(r.types) == 0 {
		return NoType
	}
	return family(name, func(name string) (Type, bool) {
		t, ok := r.types[name]
		return t, ok
	})
}

// family looks a metric up by its own name, and then by the name of the family that it may be part
// of.
func family(name string, look func(string) (Type, bool)) Type {
	if t, ok := look(name); ok {
		return t
	}
	for _, suffix := range [...]string{"_bucket", "_count", "_sum", "_total", "_created"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			t, _ := look(base)
			return t
		}
	}
	return NoType
}
