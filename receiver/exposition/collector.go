package exposition

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
)

// collector builds families from the results of either reader. It enforces the limits and the rules
// for a body as a whole. Its memory is reused from body to body.
//
// The methods return the fault's detail, or noDetail; the reader adds the position.
type collector struct {
	options  Options
	families []Family      // finish sets Metrics
	states   []familyState // of the families, by the same index
	names    index         // families by name, once there are more than linearLimit

	metrics   []Metric  // slab of familyState.metrics
	compounds []partial // slab of familyState.compounds
	points    []point   // slab of partial.points
	series    index     // metrics by family and labels, of families with more than linearLimit
	count     int       // metrics of all families

	// Set by finish for summaries and histograms.
	summaries  []Summary
	histograms []Histogram
	quantiles  []Quantile
	buckets    []Bucket

	// position is the current line or message.
	position int
	// about is the name or key that the fault concerns, if that is not at its position.
	about string
}

type familyState struct {
	metrics   slabList // in collector.metrics
	compounds slabList // in collector.compounds; the i-th belongs to the i-th metric
	typed     bool
	indexed   bool
	last      int32 // the metric that was found last
	position  int   // first occurrence of the name
}

func (c *collector) reset() {
	clear(c.families) // they retain the last body
	clear(c.metrics)
	clear(c.compounds)
	clear(c.summaries)
	clear(c.histograms)
	c.families, c.states = c.families[:0], c.states[:0]
	c.metrics, c.compounds, c.points = c.metrics[:0], c.compounds[:0], c.points[:0]
	c.summaries, c.histograms = c.summaries[:0], c.histograms[:0]
	c.quantiles, c.buckets = c.quantiles[:0], c.buckets[:0]
	c.names.reset()
	c.series.reset()
	c.count, c.position, c.about = 0, 0, ""
}

// family returns the index of the family of a name, or -1.
func (c *collector) family(name string) int {
	if len(c.families) <= linearLimit {
		for i := range c.families {
			if c.families[i].Name == name {
				return i
			}
		}
		return -1
	}
	hash := uint32(hashString(name))
	for at := hash; ; {
		entry, next, ok := c.names.next(hash, at)
		if !ok {
			return -1
		}
		if c.families[entry].Name == name {
			return entry
		}
		at = next
	}
}

// addFamily adds a family with a new name.
func (c *collector) addFamily(name string) (int, detail) {
	if d := checkName(name, badName); d != noDetail {
		return 0, d
	}
	if len(c.families) == c.options.MaxFamilies {
		return 0, manyFamilies
	}
	i := len(c.families)
	c.families = append(c.families, Family{Name: name})
	c.states = append(c.states, familyState{position: c.position})
	switch {
	case i == linearLimit:
		for j := range c.families {
			c.names.add(uint32(hashString(c.families[j].Name)), j)
		}
	case i > linearLimit:
		c.names.add(uint32(hashString(name)), i)
	}
	return i, noDetail
}

// checkName checks a metric's name or a label's key. Prometheus stops reading at a NUL in either.
func checkName(name string, bad detail) detail {
	switch {
	case name == "":
		return bad
	case !utf8.ValidString(name):
		return notUTF8
	case strings.IndexByte(name, 0) >= 0:
		return nulInName
	}
	return noDetail
}

// checkKey checks a label's key, except for the characters of an unquoted key.
func checkKey(key string) detail {
	if len(key) > 1 && key[0] == '_' && key[1] == '_' {
		return reservedLabel
	}
	return checkName(key, badKey)
}

// help makes any bytes readable for Prometheus: one help text of invalid UTF-8 would cost the other
// families.
func help(text string) string {
	return strings.ToValidUTF8(strings.TrimLeft(text, " \t"), "\uFFFD")
}

// addValue adds a metric of a counter, gauge or untyped family.
func (c *collector) addValue(family int, labels []metric.Label, value float64) detail {
	if c.find(family, labels) >= 0 {
		return sameSeries
	}
	return c.add(family, Metric{Labels: labels, Value: value})
}

// find returns the index of the family's metric with the labels, in any order, or -1.
func (c *collector) find(family int, labels []metric.Label) int {
	f := &c.states[family]
	metrics := view(c.metrics, f.metrics)
	if len(metrics) == 0 {
		return -1
	}
	if sameLabels(metrics[f.last].Labels, labels) {
		return int(f.last)
	}
	if !f.indexed {
		for i := range metrics {
			if sameLabels(metrics[i].Labels, labels) {
				return i
			}
		}
		return -1
	}
	hash := hashSeries(family, labels)
	for at := hash; ; {
		entry, next, ok := c.series.next(hash, at)
		if !ok {
			return -1
		}
		// An entry of the same hash may be a position in another family.
		if entry < len(metrics) && sameLabels(metrics[entry].Labels, labels) {
			return entry
		}
		at = next
	}
}

func (c *collector) add(family int, m Metric) detail {
	if c.count == c.options.MaxMetrics {
		return manyMetrics
	}
	c.count++
	f := &c.states[family]
	i := int(f.metrics.length)
	c.metrics = insert(c.metrics, &f.metrics, i, m)
	switch {
	case f.indexed:
		c.series.add(hashSeries(family, m.Labels), i)
	case i == linearLimit:
		f.indexed = true
		for j, one := range view(c.metrics, f.metrics) {
			c.series.add(hashSeries(family, one.Labels), j)
		}
	}
	return noDetail
}

// hashSeries does not depend on the order of the labels.
func hashSeries(family int, labels []metric.Label) uint32 {
	sum := uint64(family)
	for _, l := range labels {
		sum += hashString(l.Key) * (hashString(l.Value) | 1)
	}
	return uint32(sum ^ sum>>32)
}

// sameLabels compares sets; each has every key once.
func sameLabels(a, b []metric.Label) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !slices.Contains(b, a[i]) {
			return false
		}
	}
	return true
}
