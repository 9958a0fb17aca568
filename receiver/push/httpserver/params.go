package httpserver

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/number"
)

// Params are the parameters of a query. Labels borrow from the request's Text.
type Params struct {
	Kind    metric.Kind // NoKind: the default of the method
	Labels  []metric.Label
	TTL     time.Duration // 0: none given
	Rate    float64       // 0: none given
	Sync    Sync
	Sum     bool
	Dialect string
}

// ParamSet is a set of parameters.
type ParamSet uint8

const (
	ParamType ParamSet = 1 << iota
	ParamLabel
	ParamTTL
	ParamRate
	ParamSync
	ParamDialect
	ParamSum
)

var allowedNames = []struct {
	bit  ParamSet
	name string
}{
	{ParamType, "type"}, {ParamLabel, "label"}, {ParamTTL, "ttl"}, {ParamRate, "rate"},
	{ParamSync, "sync"}, {ParamDialect, "dialect"}, {ParamSum, "sum"},
}

// ParseParams reads a query. An unknown parameter is an error, because the client meant something
// by it.
func (x *Request) ParseParams(query []byte, may ParamSet) (Params, *Fault) {
	p := Params{Labels: x.Labels[:0]}
	var seen ParamSet
	f := x.EachParam(query, func(key, value string) *Fault {
		bit := parameter(key)
		switch {
		case bit&may == 0:
			return unknownParameter(key, may)
		case bit&seen != 0 && bit != ParamLabel:
			return BadRequest("the parameter %q appears twice", key)
		}
		seen |= bit
		return x.server.setParam(&p, bit, value)
	})
	if f == nil {
		x.Labels = p.Labels[:0] // keeps the grown slice
	}
	return p, f
}

// EachParam calls do for the parameters of a query, until one is at fault. They borrow from the request's Text. fasthttp's own
// arguments would stay with the connection, in forty times their bytes.
func (x *Request) EachParam(query []byte, do func(key, value string) *Fault) *Fault {
	for piece := range bytes.SplitSeq(query, []byte{'&'}) {
		if len(piece) == 0 {
			continue
		}
		rawKey, rawValue, _ := bytes.Cut(piece, []byte{'='})
		key, f := x.decodeParam(rawKey)
		if f != nil {
			return f
		}
		value, f := x.decodeParam(rawValue)
		if f != nil {
			return f.About(piece)
		}
		if f := do(key, value); f != nil {
			return f
		}
	}
	return nil
}

func (x *Request) decodeParam(raw []byte) (string, *Fault) {
	start := len(x.Text)
	text, bad := Unescape(x.Text, raw, true)
	if bad >= 0 {
		return "", BadEscape("query", raw, bad)
	}
	x.Text = text
	return metric.Borrow(text[start:]), nil
}

func parameter(key string) ParamSet {
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

func unknownParameter(key string, may ParamSet) *Fault {
	var names []string
	for _, a := range allowedNames {
		if a.bit&may != 0 {
			names = append(names, a.name)
		}
	}
	if len(names) == 0 {
		return BadRequest("the parameter %q is unknown: this request takes none", key)
	}
	return BadRequest("the parameter %q is unknown: this request takes %s", key, strings.Join(names, ", "))
}

func (s *Server) setParam(p *Params, bit ParamSet, value string) *Fault {
	switch bit {
	case ParamType:
		kind, ok := metric.ParseKind(value)
		if !ok {
			return BadRequest("type %q is unknown; must be one of counter, gauge, timer (or histogram, distribution), set",
				value)
		}
		p.Kind = kind
	case ParamLabel:
		key, v, ok := strings.Cut(value, "=")
		if !ok {
			return BadRequest("label %q is not key=value", value)
		}
		labels, f := s.addLabel(p.Labels, metric.Label{Key: key, Value: v})
		p.Labels = labels
		return f
	case ParamTTL:
		ttl, f := ParseTTL(value)
		p.TTL = ttl
		return f
	case ParamRate:
		rate, f := parseRate([]byte(value))
		p.Rate = rate
		return f
	case ParamSync:
		sync, ok := ParseSync(value)
		if !ok {
			return BadRequest("sync is %q; must be true, all or false", value)
		}
		p.Sync = sync
	case ParamSum:
		if value != "true" && value != "false" {
			return BadRequest("sum is %q; must be true or false", value)
		}
		p.Sum = value == "true"
	case ParamDialect:
		p.Dialect = value
	}
	return nil
}

// addLabel appends one label, within the limits.
func (s *Server) addLabel(labels []metric.Label, l metric.Label) ([]metric.Label, *Fault) {
	switch {
	case l.Key == "":
		return labels, BadRequest("a label has no key")
	case len(labels) == s.cfg.MaxLabels:
		return labels, Rejected(metric.TooLong, "there are more than %d labels", s.cfg.MaxLabels)
	case len(l.Key) > s.cfg.MaxLabelBytes:
		return labels, Rejected(metric.TooLong, "a label's key has %d bytes; must have at most %d",
			len(l.Key), s.cfg.MaxLabelBytes)
	case len(l.Value) > s.cfg.MaxLabelBytes:
		return labels, Rejected(metric.TooLong, "the value of label %q has %d bytes; must have at most %d", l.Key,
			len(l.Value), s.cfg.MaxLabelBytes)
	}
	for _, other := range labels {
		if other.Key == l.Key {
			return labels, BadRequest("the label %q appears twice", l.Key)
		}
	}
	if f := CheckLabelText(l); f != nil {
		return labels, f
	}
	return append(labels, l), nil
}

// CheckLabelText is metric.CheckLabel, with a fault in words.
func CheckLabelText(l metric.Label) *Fault {
	if f := checkText("a label's key", l.Key, metric.Malformed); f != nil {
		return f
	}
	if f := checkText("a label's value", l.Value, metric.Malformed); f != nil {
		return f.About([]byte(l.Key + "=" + l.Value))
	}
	if metric.CheckLabel(l) != metric.Applied {
		return BadName("label %q=%q has a control character; names and labels must have none", Clip([]byte(l.Key)),
			Clip([]byte(l.Value)))
	}
	return nil
}

// checkText rejects text that is not UTF-8: the JSON of an answer could not repeat it.
func checkText(what, s string, r metric.Reason) *Fault {
	if !utf8.ValidString(s) {
		return Rejected(r, "%s is not UTF-8: %q", what, s)
	}
	return nil
}

// ParseTTL reads a lifetime: a duration of at least a second, or forever.
func ParseTTL(s string) (time.Duration, *Fault) {
	if s == "forever" {
		return metric.Forever, nil
	}
	ttl, err := time.ParseDuration(s)
	if err != nil {
		return 0, BadRequest("ttl %q is not a duration; must be like 1.5s, 90s, 15m or 1h30m, or forever", s)
	}
	if ttl < time.Second {
		return 0, BadRequest("ttl %v is too short; must be at least 1s, or forever", ttl)
	}
	return ttl, nil
}

func parseRate(b []byte) (float64, *Fault) {
	n, nf := number.Parse(b)
	if nf.Reason == metric.Applied && !(n.Float() > 0 && n.Float() <= 1) || nf.Reason == metric.BadValue {
		return 0, Rejected(metric.BadRate, "the rate is %s; must be above 0 and at most 1", Clip(b))
	}
	if nf.Reason != metric.Applied {
		return 0, Rejected(metric.BadRate, "the rate: %s", nf.Words(b))
	}
	return n.Float(), nil
}

// AddLabel appends one label, within the limits.
func (x *Request) AddLabel(labels []metric.Label, l metric.Label) ([]metric.Label, *Fault) {
	return x.server.addLabel(labels, l)
}

// Check checks the names against the rules of Kubernetes. With all, the path may name all objects
// at once.
func (p *Path) Check(all bool) *Fault {
	if p.Namespace != "" {
		if f := CheckNamespace(p.Namespace); f != nil {
			return f
		}
	}
	if p.Name == metric.AllObjects && p.Resource != "" {
		if all {
			return nil
		}
		return BadName(`"*" stands for all objects when reading and deleting; a push names one`)
	}
	if p.Resource == "namespaces" {
		return CheckNamespace(p.Name)
	}
	if p.Resource != "" {
		return checkObjectName(p.Name)
	}
	return nil
}

// CheckNamespace checks that a namespace is an RFC 1123 label.
func CheckNamespace(ns string) *Fault {
	ok := len(ns) > 0 && len(ns) <= 63 && ns[0] != '-' && ns[len(ns)-1] != '-'
	for i := 0; ok && i < len(ns); i++ {
		c := ns[i]
		ok = c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z'
	}
	if !ok {
		return BadName("%q is not a namespace; must be 1 to 63 of a-z, 0-9 and -, with no - at either end", ns)
	}
	return nil
}

// checkObjectName checks that a name is a path segment (apimachinery's IsValidPathSegmentName) of
// at most 253 bytes.
func checkObjectName(name string) *Fault {
	ok := name != "" && len(name) <= 253 && name != "." && name != ".." && !strings.ContainsAny(name, "/%")
	for i := 0; ok && i < len(name); i++ {
		ok = name[i] >= ' ' && name[i] < 0x7f
	}
	if !ok {
		return BadName(`%q is not an object's name; must have 1 to 253 printable ASCII bytes without "/" and "%%", and is not "." or ".."`, name)
	}
	return nil
}

// target returns the object that a path or a line names.
func (s *Server) target(namespace, resource, name string) (metric.Object, *Fault) {
	if resource == "" {
		return metric.Object{Namespace: namespace}, nil
	}
	canonical, namespaced, err := s.resources.Canonical(resource)
	if err != nil {
		return metric.Object{}, unknownResource(err)
	}
	switch {
	case namespaced && namespace == "":
		return metric.Object{}, wrongScope("%s are in namespaces: say /v1/namespaces/{namespace}/%s/%s/{metric}, or \"namespace\" in a line", canonical, resource, name)
	case canonical == "namespaces" && namespace != "":
		return metric.Object{}, wrongScope("a namespace is in no namespace: say /v1/namespaces/%s/metrics/{metric}, or \"object\":\"namespaces/%s\" alone in a line", name, name)
	case !namespaced && namespace != "":
		return metric.Object{}, wrongScope("%s are in no namespace: say /v1/%s/%s/{metric}, or leave \"namespace\" out of a line", canonical, resource, name)
	}
	return metric.Object{Resource: canonical, Namespace: namespace, Name: name}, nil
}

// maxSegments is "v1" and the five segments of the longest path.
const maxSegments = 6

// Segments are the decoded segments of a path.
type Segments [maxSegments]string

// Cut reads a path as it stands in the request's first line: it cuts at "/" before it decodes
// percent signs, so that "%2F" never makes a segment and ".." never climbs. It returns the number
// of segments: 0 if one is empty, -1 if there are more than any path has.
func (s *Segments) Cut(path []byte) (int, *Fault) {
	if len(path) == 0 || path[0] != '/' {
		return 0, nil
	}
	var room [256]byte
	var ends [maxSegments]int
	text, n := room[:0], 0
	for rest, more := path[1:], true; more; n++ {
		if n == maxSegments {
			return -1, nil
		}
		var segment []byte
		segment, rest, more = bytes.Cut(rest, []byte{'/'})
		if len(segment) == 0 {
			return 0, nil
		}
		var bad int
		if text, bad = Unescape(text, segment, false); bad >= 0 {
			return 0, BadEscape("path", segment, bad)
		}
		ends[n] = len(text)
	}
	all, start := string(text), 0
	for i := range n {
		s[i], start = all[start:ends[i]], ends[i]
	}
	return n, nil
}

// Unescape appends b percent-decoded to dst; bad is the offset of an escape that is none, else -1.
// In a query a "+" is a space.
func Unescape(dst, b []byte, query bool) (out []byte, bad int) {
	if !query && bytes.IndexByte(b, '%') < 0 {
		return append(dst, b...), -1
	}
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '%':
			if i+2 >= len(b) || Hex(b[i+1]) > 15 || Hex(b[i+2]) > 15 {
				return dst, i
			}
			dst = append(dst, Hex(b[i+1])<<4|Hex(b[i+2]))
			i += 2
		case c == '+' && query:
			dst = append(dst, ' ')
		default:
			dst = append(dst, c)
		}
	}
	return dst, -1
}

// Hex returns the value of a hexadecimal digit, or 0xff.
func Hex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
