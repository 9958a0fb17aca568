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
