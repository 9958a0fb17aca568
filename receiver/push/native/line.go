package native

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/number"
)

// jsonLine is one line of /v1/samples:
//
//	{"name":"jobs_done", "type":"counter", "value":1, "namespace":"shop", "object":"pods/web-1",
//	 "labels":{"queue":"mail"}, "rate":0.1, "ttl":"1h", "timestamp":1700000000}
//
// Name, type and value are required. Value is a number, or the member of a set as a string. Object
// is resource/name or "external". A namespace without object means external; without both, the
// labels and the sender decide. Delta:true adds to a gauge. Timestamp is in Unix seconds.
type jsonLine struct {
	jsonText
	x    *httpserver.Request
	seen field

	name, kind, namespace, object, ttl []byte
	member                             []byte // value, if it is a string
	value                              number.Number
	valueAt                            int
	labels                             []metric.Label
	rate                               float64
	delta                              bool
	timestamp                          int64 // in Unix nanoseconds
}

// field is a set of the fields of a line.
type field uint16

const (
	fieldName field = 1 << iota
	fieldType
	fieldNumber // value, as a number
	fieldMember // value, as a string
	fieldNamespace
	fieldObject
	fieldLabels
	fieldRate
	fieldTTL
	fieldDelta
	fieldTimestamp
)

// read reads the line b. The fields borrow from b and from text.
func (l *jsonLine) read(b []byte) bool {
	*l = jsonLine{x: l.x, labels: l.labels[:0], jsonText: jsonText{b: b, text: l.text[:0]}}
	if l.space(); l.at < len(b) && b[l.at] == '[' {
		return l.fail(l.at, "one object a line, not an array", nil)
	}
	return l.jsonText.object(l.field) && l.end() && l.complete()
}

func (l *jsonLine) complete() bool {
	switch {
	case l.seen&fieldName == 0:
		return l.fail(len(l.b), `"name" is missing`, nil)
	case l.seen&fieldType == 0:
		return l.fail(len(l.b), `"type" is missing: counter, gauge, timer (or histogram, distribution), set`, nil)
	case l.seen&(fieldNumber|fieldMember) == 0:
		return l.fail(len(l.b), `"value" is missing`, nil)
	}
	return true
}

func (l *jsonLine) field(key []byte, keyAt int) (ok bool) {
	switch string(key) {
	case "name":
		l.name, ok = l.textField(fieldName, keyAt, "name")
	case "type":
		l.kind, ok = l.textField(fieldType, keyAt, "type")
	case "namespace":
		l.namespace, ok = l.textField(fieldNamespace, keyAt, "namespace")
	case "object":
		l.object, ok = l.textField(fieldObject, keyAt, "object")
	case "ttl":
		l.ttl, ok = l.textField(fieldTTL, keyAt, "ttl")
	case "value":
		ok = l.readValue(keyAt)
	case "labels":
		ok = l.once(fieldLabels, keyAt, "labels") && l.readLabels()
	case "rate":
		ok = l.once(fieldRate, keyAt, "rate") && l.readRate()
	case "delta":
		if ok = l.once(fieldDelta, keyAt, "delta"); ok {
			l.delta, ok = l.bool("delta")
		}
	case "timestamp":
		ok = l.once(fieldTimestamp, keyAt, "timestamp") && l.readTimestamp()
	default:
		ok = l.fail(keyAt, "the field %q is unknown: a line has name, type, value, namespace, object, labels, rate, ttl, delta, timestamp", key)
	}
	return ok
}

func (l *jsonLine) once(f field, keyAt int, what string) bool {
	if l.seen&f != 0 {
		return l.fail(keyAt, "the field %q appears twice", []byte(what))
	}
	l.seen |= f
	return true
}

func (l *jsonLine) textField(f field, keyAt int, what string) ([]byte, bool) {
	if !l.once(f, keyAt, what) {
		return nil, false
	}
	return l.string(what)
}

func (l *jsonLine) readValue(keyAt int) (ok bool) {
	l.valueAt = l.at
	if l.at < len(l.b) && l.b[l.at] == '"' {
		ok = l.once(fieldNumber|fieldMember, keyAt, "value")
		l.seen &^= fieldNumber
		if ok {
			l.member, ok = l.string("value")
		}
		return ok
	}
	ok = l.once(fieldNumber|fieldMember, keyAt, "value")
	l.seen &^= fieldMember
	if ok {
		l.value, ok = l.number("value")
	}
	return ok
}

func (l *jsonLine) readLabels() bool {
	return l.jsonText.object(func(key []byte, keyAt int) bool {
		value, ok := l.string("a label's value")
		if !ok {
			return false
		}
		labels, f := l.x.AddLabel(l.labels, metric.Label{Key: metric.Borrow(key), Value: metric.Borrow(value)})
		if f != nil {
			return l.failFor(f.Counted, keyAt, "%s", []byte(f.Message))
		}
		l.labels = labels
		return true
	})
}

func (l *jsonLine) readRate() bool {
	start := l.at
	n, ok := l.number("rate")
	if !ok {
		if l.fault.reason == metric.BadValue {
			l.fault.reason = metric.BadRate
		}
		return false
	}
	if r := n.Float(); !(r > 0 && r <= 1) {
		return l.failFor(metric.BadRate, start, "the rate is %s; must be above 0 and at most 1", l.b[start:l.at])
	}
	l.rate = n.Float()
	return true
}

// latestTimestamp is in the year 4199. A later timestamp is in milliseconds or smaller units.
const latestTimestamp = 1 << 36

func (l *jsonLine) readTimestamp() bool {
	start := l.at
	n, ok := l.number("timestamp")
	if ok && (n.Negative() || n.Whole >= latestTimestamp || n.Fraction >= 1) {
		return l.fail(start, "the timestamp %s is not a time in Unix seconds", l.b[start:l.at])
	}
	l.timestamp = min(n.Whole, math.MaxInt64/metric.Nanos-1)*metric.Nanos + int64(n.Fraction*metric.Nanos)
	return ok
}
