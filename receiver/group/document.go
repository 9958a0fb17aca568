package group

import (
	"encoding/binary"
	"math"

	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// documentVersion is the first byte of a document. A later version is an error.
const documentVersion = 3

const (
	withoutBegan    = 1 // the version without the start of the TTL
	withoutVersions = 2 // the version without versions, which is also that of groups without replicas
)

// appendDocument appends a group's document, the form in which the store keeps it:
//
//	version
//	namespace, resource, namespace and name of the described object
//	number of grouping labels, each key and value
//	times: pushed, failed, ttl, began
//	number of families, each:
//	  name, help, type, pushed, number of metrics, each:
//	    number of labels << 1 | unserved, each key and value
//	    a value; or count, sum, number of quantiles, each quantile and value; or count, sum, number of buckets, each
//	    bound and count, and 0, or 1 and the native histogram
//	in replicas, the versions pushed, failed, replaced and ended, and that of each family: stamp and origin
//
// Whole numbers are uvarints. A text is 0, length and bytes at the first occurrence, and the number
// of texts since then at later ones. A float is a uvarint: twice the number if that is whole and
// below 2^52, else 1 and eight bytes.
func appendDocument(dst []byte, g *group, c *contents) []byte {
	e := encoder{dst: append(dst, withoutVersions)}
	if c.versions != nil {
		e.dst[len(dst)] = documentVersion
	}
	e.text(g.key.Namespace)
	e.text(g.about.Resource)
	e.text(g.about.Namespace)
	e.text(g.about.Name)
	e.number(uint64(g.key.Labels.Len()))
	for key, value := range g.key.Labels.All() {
		e.text(key)
		e.text(value)
	}
	e.number(uint64(c.pushed))
	e.number(uint64(c.failed))
	e.number(uint64(c.ttl))
	e.number(uint64(c.began))
	e.number(uint64(len(c.families)))
	for _, f := range c.families {
		e.family(f)
	}
	if v := c.versions; v != nil {
		for _, one := range []version{v.pushed, v.failed, v.replaced, v.ended} {
			e.version(one)
		}
		for _, family := range v.families {
			e.version(family)
		}
	}
	return e.dst
}

func (e *encoder) version(v version) {
	e.number(uint64(v.stamp))
	e.text(v.origin)
}

type encoder struct {
	dst []byte
	// The first texts are in few, searched linearly, because most documents have no more. Later
	// texts are in many.
	few  [32]string
	n    int // of all texts
	many map[string]int
}

func (e *encoder) number(n uint64) { e.dst = binary.AppendUvarint(e.dst, n) }

func (e *encoder) text(s string) {
	if at := e.find(s); at >= 0 {
		e.number(uint64(e.n - at))
		return
	}
	if e.n < len(e.few) {
		e.few[e.n] = s
	} else {
		if e.many == nil {
			e.many = map[string]int{}
		}
		e.many[s] = e.n
	}
	e.n++
	e.number(0)
	e.number(uint64(len(s)))
	e.dst = append(e.dst, s...)
}

// find is the number of an earlier text, or -1.
func (e *encoder) find(s string) int {
	for i := range min(e.n, len(e.few)) {
		if e.few[i] == s {
			return i
		}
	}
	if at, ok := e.many[s]; ok {
		return at
	}
	return -1
}

const wholeLimit = 1 << 52

func (e *encoder) float(v float64) {
	if v >= 0 && v < wholeLimit && v == math.Trunc(v) && !math.Signbit(v) {
		e.number(uint64(v) << 1)
		return
	}
	e.dst = binary.LittleEndian.AppendUint64(append(e.dst, 1), math.Float64bits(v))
}

func (e *encoder) family(f *family) {
	e.text(f.Name)
	e.text(f.Help)
	e.dst = append(e.dst, byte(f.Type))
	e.number(uint64(f.pushed))
	e.number(uint64(len(f.Metrics)))
	for i := range f.Metrics {
		m := &f.Metrics[i]
		flagged := uint64(len(m.Labels)) << 1
		if !f.served(i) {
			flagged |= 1
		}
		e.number(flagged)
		for _, l := range m.Labels {
			e.text(l.Key)
			e.text(l.Value)
		}
		e.metric(f.Type, m)
	}
}

func (e *encoder) metric(t exposition.Type, m *exposition.Metric) {
	switch t {
	case exposition.SummaryType:
		s := m.Summary
		e.float(s.Count)
		e.float(s.Sum)
		e.number(uint64(len(s.Quantiles)))
		for _, q := range s.Quantiles {
			e.float(q.Quantile)
			e.float(q.Value)
		}
	case exposition.HistogramType, exposition.GaugeHistogramType:
		h := m.Histogram
		e.float(h.Count)
		e.float(h.Sum)
		e.number(uint64(len(h.Buckets)))
		for _, b := range h.Buckets {
			e.float(b.UpperBound)
			e.float(b.Count)
		}
		e.native(h.Native)
	default:
		e.float(m.Value)
	}
}

func (e *encoder) native(n *exposition.Native) {
	if n == nil {
		e.dst = append(e.dst, 0)
		return
	}
	e.dst = binary.AppendVarint(append(e.dst, 1), int64(n.Schema))
	e.float(n.ZeroThreshold)
	e.float(n.ZeroCount)
	for _, side := range []struct {
		spans  []exposition.Span
		counts []float64
	}{{n.PositiveSpans, n.PositiveCounts}, {n.NegativeSpans, n.NegativeCounts}} {
		e.number(uint64(len(side.spans)))
		for _, s := range side.spans {
			e.dst = binary.AppendVarint(e.dst, int64(s.Offset))
			e.number(uint64(s.Length))
		}
		e.number(uint64(len(side.counts)))
		for _, count := range side.counts {
			e.float(count)
		}
	}
}
