package group

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

var errDocument = errors.New("invalid group document")

// readDocument decodes the output of appendDocument. It never panics on any bytes, and takes no
// more memory than about fifty times theirs.
func readDocument(value []byte) (*group, *contents, error) {
	if len(value) == 0 || value[0] < withoutBegan || value[0] > documentVersion {
		if len(value) > 0 && value[0] > documentVersion {
			return nil, nil, fmt.Errorf("%w: version is %d; must be at most %d", errDocument, value[0], documentVersion)
		}
		return nil, nil, errDocument
	}
	d := decoder{all: string(value[1:])}
	g, c := &group{}, &contents{}
	g.key.Namespace = d.text()
	g.about = metric.Object{Resource: d.text(), Namespace: d.text(), Name: d.text()}
	labels := d.labels(d.count(2))
	g.key.Labels = metric.NewLabels(labels)
	c.pushed, c.failed, c.ttl = int64(d.number()), int64(d.number()), time.Duration(d.number())
	if value[0] != withoutBegan {
		c.began = time.Duration(d.number())
	}
	before := ""
	for n := d.count(5); n > 0 && !d.failed; n-- {
		f := d.family()
		d.must(f.Name > before) // sorted and distinct
		before = f.Name
		c.families = append(c.families, f)
		c.bytes += f.bytes
	}
	if value[0] > withoutVersions {
		d.versions(c)
	}
	d.must(d.at == len(d.all) && c.pushed >= 0 && c.failed >= 0 && c.ttl >= 0 && c.began >= 0)
	if d.failed {
		return nil, nil, errDocument
	}
	c.bytes += g.overhead() + pointerBytes*int64(len(c.families))
	if c.versions != nil {
		c.bytes += versionBytes(c.versions)
	}
	return g, c, nil
}

func (d *decoder) versions(c *contents) {
	v := &versions{pushed: d.version(), failed: d.version(), replaced: d.version(), ended: d.version()}
	v.families = make([]version, len(c.families))
	for i := range v.families {
		v.families[i] = d.version()
		d.must(v.families[i].stamp > 0)
	}
	d.must((v.pushed.stamp > 0) == (c.pushed > 0) && (v.failed.stamp > 0) == (c.failed > 0))
	c.versions = v
}

const (
	latestStamp = 1 << 53 // in the far future
	maxOrigin   = 253
)

func (d *decoder) version() version {
	v := version{stamp: int64(d.number()), origin: d.text()}
	d.must(v.stamp >= 0 && v.stamp < latestStamp && len(v.origin) <= maxOrigin)
	return v
}

// decoder reads texts that stand for themselves: a family that outlives the others of its document must not keep the whole.
// After the first fault it reads zeros.
type decoder struct {
	all    string
	at     int
	texts  []string
	failed bool
}

func (d *decoder) must(ok bool) {
	if !ok {
		d.failed, d.at = true, len(d.all)
	}
}

func (d *decoder) number() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		if d.at == len(d.all) {
			break
		}
		b := d.all[d.at]
		d.at++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	d.must(false)
	return 0
}

func (d *decoder) signed() int64 {
	n := d.number()
	return int64(n>>1) ^ -int64(n&1)
}

// count reads a number of elements that take at least so many bytes each.
func (d *decoder) count(bytes int) int {
	n := d.number()
	d.must(n <= uint64((len(d.all)-d.at)/bytes))
	if d.failed {
		return 0
	}
	return int(n)
}

func (d *decoder) byte() byte {
	if d.at == len(d.all) {
		d.must(false)
		return 0
	}
	d.at++
	return d.all[d.at-1]
}

func (d *decoder) text() string {
	if back := d.number(); back > 0 {
		d.must(back <= uint64(len(d.texts)))
		if d.failed {
			return ""
		}
		return d.texts[len(d.texts)-int(back)]
	}
	n := d.count(1)
	if d.failed {
		return ""
	}
	s := strings.Clone(d.all[d.at : d.at+n])
	d.at += n
	d.texts = append(d.texts, s)
	return s
}

func (d *decoder) float() float64 {
	n := d.number()
	if n&1 == 0 {
		d.must(n>>1 < wholeLimit)
		return float64(n >> 1)
	}
	d.must(n == 1 && len(d.all)-d.at >= 8)
	if d.failed {
		return 0
	}
	bits := uint64(0)
	for i := range 8 {
		bits |= uint64(d.all[d.at+i]) << (8 * i)
	}
	d.at += 8
	return math.Float64frombits(bits)
}

func (d *decoder) labels(n int) []metric.Label {
	labels := make([]metric.Label, n)
	for i := range labels {
		labels[i] = metric.Label{Key: d.text(), Value: d.text()}
		d.must(i == 0 || labels[i].Key > labels[i-1].Key)
	}
	return labels
}

func (d *decoder) family() *family {
	f := &family{}
	f.Name, f.Help = d.text(), d.text()
	f.Type = exposition.Type(d.byte())
	d.must(f.Type <= exposition.GaugeHistogramType && f.Name != "")
	f.pushed = int64(d.number())
	n := d.count(2)
	f.Metrics = make([]exposition.Metric, n)
	f.bytes = int64(unsafe.Sizeof(*f)) + int64(len(f.Name)+len(f.Help))
	for i := range f.Metrics {
		if d.failed {
			break
		}
		d.metric(f, i)
	}
	return f
}

func (d *decoder) metric(f *family, i int) {
	flagged := d.number()
	d.must(flagged>>1 <= uint64((len(d.all)-d.at)/2))
	if d.failed {
		return
	}
	var in exposition.Metric
	in.Labels = d.labels(int(flagged >> 1))
	switch f.Type {
	case exposition.SummaryType:
		in.Summary = d.summary()
	case exposition.HistogramType, exposition.GaugeHistogramType:
		in.Histogram = d.histogram()
	default:
		in.Value = d.float()
	}
	f.Metrics[i] = in
	f.addSize(i)
	if flagged&1 != 0 {
		f.setUnserved(i)
	}
}

func (d *decoder) summary() *exposition.Summary {
	s := &exposition.Summary{Count: d.float(), Sum: d.float()}
	if n := d.count(2); n > 0 {
		s.Quantiles = make([]exposition.Quantile, n)
		for i := range s.Quantiles {
			s.Quantiles[i] = exposition.Quantile{Quantile: d.float(), Value: d.float()}
		}
	}
	return s
}

func (d *decoder) histogram() *exposition.Histogram {
	h := &exposition.Histogram{Count: d.float(), Sum: d.float()}
	if n := d.count(2); n > 0 {
		h.Buckets = make([]exposition.Bucket, n)
		for i := range h.Buckets {
			h.Buckets[i] = exposition.Bucket{UpperBound: d.float(), Count: d.float()}
		}
	}
	switch d.byte() {
	case 0:
	case 1:
		h.Native = d.native()
	default:
		d.must(false)
	}
	return h
}

func (d *decoder) native() *exposition.Native {
	schema := d.signed()
	d.must(schema >= -4 && schema <= 8)
	n := &exposition.Native{Schema: int32(schema), ZeroThreshold: d.float(), ZeroCount: d.float()}
	n.PositiveSpans, n.PositiveCounts = d.side()
	n.NegativeSpans, n.NegativeCounts = d.side()
	return n
}

func (d *decoder) side() (spans []exposition.Span, counts []float64) {
	if n := d.count(2); n > 0 {
		spans = make([]exposition.Span, n)
	}
	announced, end := uint64(0), int64(0)
	for i := range spans {
		offset, length := d.signed(), d.number()
		d.must(offset == int64(int32(offset)) && length <= uint64(len(d.all)))
		if d.failed {
			return nil, nil
		}
		announced += length
		end += offset + int64(length)
		d.must(end == int64(int32(end)))
		spans[i] = exposition.Span{Offset: int32(offset), Length: uint32(length)}
	}
	n := d.count(1)
	d.must(uint64(n) == announced)
	if d.failed {
		return nil, nil
	}
	if n > 0 {
		counts = make([]float64, n)
	}
	for i := range counts {
		counts[i] = d.float()
	}
	return spans, counts
}
