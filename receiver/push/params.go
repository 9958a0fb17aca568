package push

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
)

// params are a request's query parameters. Labels borrow from the exchange's text.
type params struct {
	kind    metric.Kind // NoKind: the method's own
	labels  []metric.Label
	ttl     time.Duration // 0: not said
	rate    float64       // 0: not said
	sync    bool
	sum     bool
	dialect string
}

// allowed is a set of parameters.
type allowed uint8

const (
	allowType allowed = 1 << iota
	allowLabel
	allowTTL
	allowRate
	allowSync
	allowDialect
	allowSum
)

var allowedNames = []struct {
	bit  allowed
	name string
}{
	{allowType, "type"}, {allowLabel, "label"}, {allowTTL, "ttl"}, {allowRate, "rate"},
	{allowSync, "sync"}, {allowDialect, "dialect"}, {allowSum, "sum"},
}

// parseParams reads a query string. An unknown parameter is an error: it would have meant something.
func (x *exchange) parseParams(query []byte, may allowed) (params, *fault) {
	p := params{labels: x.labels[:0]}
	var seen allowed
	for rest := query; len(rest) > 0; {
		var piece []byte
		piece, rest, _ = bytes.Cut(rest, []byte{'&'})
		if len(piece) == 0 {
			continue
		}
		rawKey, rawValue, _ := bytes.Cut(piece, []byte{'='})
		key, f := x.decodeParam(rawKey)
		if f != nil {
			return p, f
		}
		value, f := x.decodeParam(rawValue)
		if f != nil {
			return p, f
		}
		bit := parameter(key)
		switch {
		case bit&may == 0:
			return p, unknownParameter(key, may)
		case bit&seen != 0 && bit != allowLabel:
			return p, badRequest("the parameter %q is there twice", key)
		}
		seen |= bit
		if f := x.server.setParam(&p, bit, value); f != nil {
			return p, f
		}
	}
	x.labels = p.labels[:0] // keeps what the slice has grown to
	return p, nil
}

func (x *exchange) decodeParam(raw []byte) (string, *fault) {
	start := len(x.text)
	text, bad := unescape(x.text, raw, true)
	if bad >= 0 {
		return "", badEscape("query", raw, bad)
	}
	x.text = text
	return metric.Borrow(text[start:]), nil
}

func parameter(key string) allowed {
	for _, a := range allowedNames {
		if a.name == key {
			return a.bit
		}
	}
	return 0
}

// ParamNames returns the names of all parameters.
func ParamNames() (all []string) {
	for _, a := range allowedNames {
		all = append(all, a.name)
	}
	return all
}

func unknownParameter(key string, may allowed) *fault {
	var names []string
	for _, a := range allowedNames {
		if a.bit&may != 0 {
			names = append(names, a.name)
		}
	}
	if len(names) == 0 {
		return badRequest("the parameter %q means nothing here: this request takes none", key)
	}
	return badRequest("the parameter %q means nothing here: this request takes %s", key, strings.Join(names, ", "))
}

func (s *httpServer) setParam(p *params, bit allowed, value string) *fault {
	switch bit {
	case allowType:
		kind, ok := metric.ParseKind(value)
		if !ok {
			return badRequest("type %q is none of counter, gauge, timer (or histogram, distribution), set", value)
		}
		p.kind = kind
	case allowLabel:
		key, v, ok := strings.Cut(value, "=")
		if !ok {
			return badRequest("label %q is not key=value", value)
		}
		labels, f := s.addLabel(p.labels, metric.Label{Key: key, Value: v})
		p.labels = labels
		return f
	case allowTTL:
		ttl, f := parseTTL(value)
		p.ttl = ttl
		return f
	case allowRate:
		rate, f := parseRate([]byte(value))
		p.rate = rate
		return f
	case allowSync, allowSum:
		if value != "true" && value != "false" {
			return badRequest("%s is %q; must be true or false", map[allowed]string{allowSync: "sync", allowSum: "sum"}[bit], value)
		}
		if bit == allowSync {
			p.sync = value == "true"
		} else {
			p.sum = value == "true"
		}
	case allowDialect:
		p.dialect = value
	}
	return nil
}

// addLabel appends one label, within the caps.
func (s *httpServer) addLabel(labels []metric.Label, l metric.Label) ([]metric.Label, *fault) {
	switch {
	case l.Key == "":
		return labels, badRequest("a label has no key")
	case len(labels) == s.cfg.MaxLabels:
		return labels, refused(metric.TooLong, "there are more than %d labels", s.cfg.MaxLabels)
	case len(l.Key) > s.cfg.MaxLabelBytes:
		return labels, refused(metric.TooLong, "a label's key has %d bytes, but may have %d", len(l.Key), s.cfg.MaxLabelBytes)
	case len(l.Value) > s.cfg.MaxLabelBytes:
		return labels, refused(metric.TooLong, "the value of label %q has %d bytes, but may have %d", l.Key, len(l.Value), s.cfg.MaxLabelBytes)
	}
	for _, other := range labels {
		if other.Key == l.Key {
			return labels, badRequest("the label %q is there twice", l.Key)
		}
	}
	if f := checkLabelText(l); f != nil {
		return labels, f
	}
	return append(labels, l), nil
}

// checkLabelText is metric.CheckLabel, worded.
func checkLabelText(l metric.Label) *fault {
	if f := checkText("a label's key", l.Key, metric.Malformed); f != nil {
		return f
	}
	if f := checkText("a label's value", l.Value, metric.Malformed); f != nil {
		return f
	}
	if metric.CheckLabel(l) != metric.Applied {
		return badName("label %q=%q holds a control character: no name, label key or label value may", clip([]byte(l.Key)), clip([]byte(l.Value)))
	}
	return nil
}

// checkText: what is not UTF-8 could not be said in the JSON of an answer.
func checkText(what, s string, r metric.Reason) *fault {
	if !utf8.ValidString(s) {
		return refused(r, "%s is not UTF-8: %q", what, s)
	}
	return nil
}

func parseTTL(s string) (time.Duration, *fault) {
	if s == "forever" {
		return metric.Forever, nil
	}
	ttl, err := time.ParseDuration(s)
	if err != nil {
		return 0, badRequest("ttl %q is no duration; must be one like 1.5s, 90s, 15m or 1h30m, or forever", s)
	}
	if ttl < time.Second {
		return 0, badRequest("ttl %v is too short; must be at least 1s, or forever", ttl)
	}
	return ttl, nil
}

func parseRate(b []byte) (float64, *fault) {
	n, nf := parseNumber(b)
	if nf.reason == metric.Applied && !(n.float() > 0 && n.float() <= 1) || nf.reason == metric.BadValue {
		return 0, refused(metric.BadRate, "the rate is %s, but must be above 0 and at most 1", clip(b))
	}
	if nf.reason != metric.Applied {
		return 0, refused(metric.BadRate, "the rate: %s", nf.words(b))
	}
	return n.float(), nil
}

// addLabel appends one label, within the limits.
func (x *exchange) addLabel(labels []metric.Label, l metric.Label) ([]metric.Label, *fault) {
	return x.server.addLabel(labels, l)
}
