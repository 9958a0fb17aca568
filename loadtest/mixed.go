package loadtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// mixed is the load of a cluster's pods: counters by status code, gauges, timers, and sets of a few
// members. Every datagram has the same number of lines of each kind; half of the lines are
// counters. So the loss by a dropped datagram is known for each kind.
type mixed struct {
	namespaces, pods int
	kinds            []mixedKind
}

// mixedKind is the metrics of one kind that every pod has.
type mixedKind struct {
	name, metric, stat string
	metrics            int
	// variants is the number of lines per pod and metric: one for each counter series or set
	// member.
	variants, seriesOfVariants int
	share                      int // of a datagram's lines
	suffix                     string
	worth                      func(m mixed, k mixedKind) int64
	windowed                   bool
}

// mixedLines is the number of lines in a datagram.
const mixedLines = 24

func newMixed(namespaces, pods int) mixed {
	return mixed{namespaces, pods, []mixedKind{
		{name: "counters", metric: "http.requests", stat: "total", metrics: 20, variants: 5, seriesOfVariants: 5,
			share: 12, suffix: "c"},
		{name: "gauges", metric: "queue.depth", stat: "last", metrics: 40, variants: 1, seriesOfVariants: 1, share: 4,
			suffix: "g", worth: gaugeWorth},
		{name: "timers", metric: "http.latency", stat: "count:1m", metrics: 8, variants: 1, seriesOfVariants: 1, share: 7,
			suffix: "ms", windowed: true},
		{name: "sets", metric: "http.users", stat: "unique:1m", metrics: 2, variants: 4, seriesOfVariants: 1, share: 1,
			suffix: "s", worth: setWorth, windowed: true},
	}}
}

func (m mixed) perMetric() int { return m.namespaces * m.pods }

func (m mixed) sizeOf(k mixedKind) int { return m.perMetric() * k.metrics * k.variants }

func (m mixed) size() (n int) {
	for _, k := range m.kinds {
		n += m.sizeOf(k)
	}
	return n
}

func (m mixed) series() (n int) {
	for _, k := range m.kinds {
		n += m.perMetric() * k.metrics * k.seriesOfVariants
	}
	return n
}

// draw takes the kinds in turn, so that every datagram has the same number of lines of each kind.
func (m mixed) draw(n int64, random *rand.Rand) int {
	place, first := int(n%mixedLines), 0
	for _, k := range m.kinds {
		if place < k.share {
			return first + random.IntN(m.sizeOf(k))
		}
		place -= k.share
		first += m.sizeOf(k)
	}
	panic("the shares do not add up to a datagram")
}

// mixedLine is one line, split into parts.
type mixedLine struct {
	mixedKind
	number, namespace, pod, variant int
	value                           int64
}

func (m mixed) line(i int, random *rand.Rand) mixedLine {
	for _, k := range m.kinds {
		if size := m.sizeOf(k); i >= size {
			i -= size
			continue
		}
		l := mixedLine{mixedKind: k, number: i % k.metrics}
		rest := i / k.metrics
		l.namespace, rest = rest%m.namespaces, rest/m.namespaces
		l.pod, l.variant = rest%m.pods, rest/m.pods
		switch k.suffix {
		case "c":
			l.value = 1
		case "g":
			l.value = gaugeValue(i)
		case "ms":
			l.value = latency(random)
		case "s":
			l.value = int64(l.variant)
		}
		return l
	}
	panic("no such line")
}

// gaugeValue returns the constant value of a gauge: it does not matter which line came last or was
// dropped.
func gaugeValue(i int) int64 { return 1 + int64(i%1000) }

func gaugeWorth(m mixed, k mixedKind) (sum int64) {
	for i := range m.sizeOf(k) {
		sum += gaugeValue(i)
	}
	return sum
}

// setWorth returns the number of members; the warm-up sends every member.
func setWorth(m mixed, k mixedKind) int64 { return int64(m.sizeOf(k)) }

func (m mixed) appendLine(dst []byte, i int, random *rand.Rand) []byte {
	l := m.line(i, random)
	dst = strconv.AppendInt(append(append(dst, l.metric...), ".m"...), int64(l.number), 10)
	dst = strconv.AppendInt(append(dst, ':'), l.value, 10)
	dst = append(append(append(dst, '|'), l.suffix...), "|#namespace:ns"...)
	dst = strconv.AppendInt(dst, int64(l.namespace), 10)
	dst = strconv.AppendInt(append(dst, ",pod:web-"...), int64(l.pod), 10)
	if l.suffix == "c" {
		dst = strconv.AppendInt(append(dst, ",code:"...), 200+int64(l.variant), 10)
	}
	return dst
}

func (m mixed) parts() []part {
	var parts []part
	for _, k := range m.kinds {
		p := part{name: k.name, size: m.sizeOf(k), share: k.share, windowed: k.windowed}
		if k.worth != nil {
			p.worth = k.worth(m, k)
		}
		for namespace := range m.namespaces {
			for number := range k.metrics {
				p.paths = append(p.paths, fmt.Sprintf("/v1/namespaces/ns%d/pods/*/%s.m%d:%s", namespace, k.metric, number, k.stat))
			}
		}
		parts = append(parts, p)
	}
	return parts
}
