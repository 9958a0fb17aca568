package remotewrite

import (
	"strings"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
)

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
