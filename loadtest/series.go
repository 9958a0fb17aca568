package loadtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/cactus/go-statsd-client/v5/statsd"
)

// seriesSet is the numbered lines of a scenario.
type seriesSet interface {
	// size returns the number of lines: one per series, or one per member of a set.
	size() int
	series() int
	// draw picks the n-th line of a load.
	draw(n int64, random *rand.Rand) int
	// appendLine appends line i, without a line end; values come from random.
	appendLine(dst []byte, i int, random *rand.Rand) []byte
	// parts are the series whose sums are known.
	parts() []part
}

// part is a group of series whose values, read over the HTTP API, have a known sum.
type part struct {
	name string
	// paths are the paths in the HTTP API whose values add up to the sum.
	paths []string
	// size is the number of the part's lines; the warm-up sends each line once.
	size int
	// share is the number of the part's lines in each datagram; 0: all.
	share int
	// worth is the expected sum if the number of lines does not tell it, as for gauges and sets. It
	// is 0 for counters, which count 1 per line, and for timers, which count one observation per
	// line.
	worth int64
	// windowed reports that the values are those of the last minute.
	windowed bool
}

// uniform is a set of lines that are drawn with equal probability.
type uniform int

func (u uniform) size() int                      { return int(u) }
func (u uniform) series() int                    { return int(u) }
func (u uniform) draw(_ int64, r *rand.Rand) int { return r.IntN(int(u)) }

// taggedCounters are counters of pods, as
// "http.requests.m7:1|c|#namespace:ns3,pod:web-12,code:201".
type taggedCounters struct {
	uniform
	metrics, namespaces, pods, codes int
}

func newTaggedCounters(metrics, namespaces, pods, codes int) taggedCounters {
	return taggedCounters{uniform(metrics * namespaces * pods * codes), metrics, namespaces, pods, codes}
}

func (t taggedCounters) place(i int) (metric, namespace, pod, code int) {
	metric, i = i%t.metrics, i/t.metrics
	namespace, i = i%t.namespaces, i/t.namespaces
	return metric, namespace, i % t.pods, 200 + i/t.pods
}

func (t taggedCounters) appendLine(dst []byte, i int, _ *rand.Rand) []byte {
	metric, namespace, pod, code := t.place(i)
	dst = strconv.AppendInt(append(dst, "http.requests.m"...), int64(metric), 10)
	dst = strconv.AppendInt(append(dst, ":1|c|#namespace:ns"...), int64(namespace), 10)
	dst = strconv.AppendInt(append(dst, ",pod:web-"...), int64(pod), 10)
	return strconv.AppendInt(append(dst, ",code:"...), int64(code), 10)
}

// call sends line i through a client.
func (t taggedCounters) call(client statsd.StatSender, i int) error {
	metric, namespace, pod, code := t.place(i)
	return client.Inc("http.requests.m"+strconv.Itoa(metric), 1, 1,
		statsd.Tag{"namespace", "ns" + strconv.Itoa(namespace)},
		statsd.Tag{"pod", "web-" + strconv.Itoa(pod)},
		statsd.Tag{"code", strconv.Itoa(code)})
}

func (t taggedCounters) parts() []part {
	var paths []string
	for namespace := range t.namespaces {
		for metric := range t.metrics {
			paths = append(paths, fmt.Sprintf("/v1/namespaces/ns%d/pods/*/http.requests.m%d:total", namespace, metric))
		}
	}
	return []part{{name: "counters", paths: paths, size: t.size()}}
}

// plainCounters are counters as "http.requests.m7.h3:1|c".
type plainCounters struct {
	uniform
	metrics, hosts int
}

func newPlainCounters(metrics, hosts int) plainCounters {
	return plainCounters{uniform(metrics * hosts), metrics, hosts}
}

func (p plainCounters) appendLine(dst []byte, i int, _ *rand.Rand) []byte {
	return append(appendPlain(append(dst, "http.requests"...), i%p.metrics, i/p.metrics), ":1|c"...)
}

func (p plainCounters) parts() []part {
	paths := make([]string, p.size())
	for i := range paths {
		paths[i] = string(appendPlain([]byte("/v1/external/http.requests"), i%p.metrics, i/p.metrics)) + ":total"
	}
	return []part{{name: "counters", paths: paths, size: p.size()}}
}

// plainTimers are timers as "http.latency.m7.h3:32|ms". Latencies are log-normal around 20 ms, cut
// to 1 to 999 ms, as those of one service mostly are.
type plainTimers struct {
	uniform
	metrics, hosts int
}

func newPlainTimers(metrics, hosts int) plainTimers {
	return plainTimers{uniform(metrics * hosts), metrics, hosts}
}

func (p plainTimers) appendLine(dst []byte, i int, random *rand.Rand) []byte {
	dst = appendPlain(append(dst, "http.latency"...), i%p.metrics, i/p.metrics)
	return append(strconv.AppendInt(append(dst, ':'), latency(random), 10), "|ms"...)
}

// parts reads counts of a window: a timer has no total.
func (p plainTimers) parts() []part {
	paths := make([]string, p.size())
	for i := range paths {
		paths[i] = string(appendPlain([]byte("/v1/external/http.latency"), i%p.metrics, i/p.metrics)) + ":count:1m"
	}
	return []part{{name: "timers", paths: paths, size: p.size(), windowed: true}}
}

func appendPlain(dst []byte, metric, host int) []byte {
	dst = strconv.AppendInt(append(dst, ".m"...), int64(metric), 10)
	return strconv.AppendInt(append(dst, ".h"...), int64(host), 10)
}

const (
	medianLatency = 20.0 // ms
	latencySpread = 0.7  // standard deviation of the logarithm
)

// latency draws a latency in milliseconds.
func latency(random *rand.Rand) int64 {
	return int64(min(max(medianLatency*math.Exp(latencySpread*random.NormFloat64()), 1), 999))
}

// podCounters are counters of a fake API server's pods, such as
// "app.m3:1|c|#namespace:load-0,pod:web-12". Untagged, as a pod sends them, the line is
// "app.m3:1|c". All metrics of a pod precede those of the next pod.
type podCounters struct {
	uniform
	pods     podSet
	metrics  int
	untagged bool
}

func newPodCounters(pods podSet, metrics int) podCounters {
	return podCounters{uniform: uniform(pods.size() * metrics), pods: pods, metrics: metrics}
}

func podMetric(n int) string { return "app.m" + strconv.Itoa(n) }

func (p podCounters) appendLine(dst []byte, i int, _ *rand.Rand) []byte {
	pod, metric := i/p.metrics, i%p.metrics
	dst = append(append(dst, podMetric(metric)...), ":1|c"...)
	if p.untagged {
		return dst
	}
	return fmt.Appendf(dst, "|#namespace:%s,pod:%s", p.pods.namespace(pod), p.pods.name(pod))
}

func (p podCounters) parts() []part {
	var paths []string
	for namespace := range p.pods.namespaces {
		for metric := range p.metrics {
			paths = append(paths, fmt.Sprintf("/v1/namespaces/%s/pods/*/%s:total", podNamespace(namespace), podMetric(metric)))
		}
	}
	return []part{{name: "counters", paths: paths, size: p.size()}}
}

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
