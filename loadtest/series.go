package loadtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/cactus/go-statsd-client/v5/statsd"
)

// seriesSet is the series of a scenario, by number. All counters count 1 a line and all timers observe
// once a line, so that a sum over the set is a number of lines.
type seriesSet interface {
	size() int
	// appendLine appends a line of series i, without a line end; values come from random.
	appendLine(dst []byte, i int, random *rand.Rand) []byte
	// call does the same through a client.
	call(client statsd.StatSender, i int, random *rand.Rand) error
	// readings are paths of the HTTP API whose values add up to the number of lines applied.
	readings() []string
}

// taggedCounters are counters of pods, as "http.requests.m7:1|c|#namespace:ns3,pod:web-12,code:201".
type taggedCounters struct{ metrics, namespaces, pods, codes int }

func (t taggedCounters) size() int { return t.metrics * t.namespaces * t.pods * t.codes }

func (t taggedCounters) parts(i int) (metric, namespace, pod, code int) {
	metric, i = i%t.metrics, i/t.metrics
	namespace, i = i%t.namespaces, i/t.namespaces
	return metric, namespace, i % t.pods, 200 + i/t.pods
}

func (t taggedCounters) appendLine(dst []byte, i int, _ *rand.Rand) []byte {
	metric, namespace, pod, code := t.parts(i)
	dst = strconv.AppendInt(append(dst, "http.requests.m"...), int64(metric), 10)
	dst = strconv.AppendInt(append(dst, ":1|c|#namespace:ns"...), int64(namespace), 10)
	dst = strconv.AppendInt(append(dst, ",pod:web-"...), int64(pod), 10)
	return strconv.AppendInt(append(dst, ",code:"...), int64(code), 10)
}

func (t taggedCounters) call(client statsd.StatSender, i int, _ *rand.Rand) error {
	metric, namespace, pod, code := t.parts(i)
	return client.Inc("http.requests.m"+strconv.Itoa(metric), 1, 1,
		statsd.Tag{"namespace", "ns" + strconv.Itoa(namespace)},
		statsd.Tag{"pod", "web-" + strconv.Itoa(pod)},
		statsd.Tag{"code", strconv.Itoa(code)})
}

func (t taggedCounters) readings() []string {
	var paths []string
	for namespace := range t.namespaces {
		for metric := range t.metrics {
			paths = append(paths, fmt.Sprintf("/v1/namespaces/ns%d/pods/*/http.requests.m%d:total", namespace, metric))
		}
	}
	return paths
}

// plainCounters are counters as "http.requests.m7.h3:1|c".
type plainCounters struct{ metrics, hosts int }

func (p plainCounters) size() int { return p.metrics * p.hosts }

func (p plainCounters) appendLine(dst []byte, i int, _ *rand.Rand) []byte {
	return append(appendPlain(append(dst, "http.requests"...), i%p.metrics, i/p.metrics), ":1|c"...)
}

func (p plainCounters) call(client statsd.StatSender, i int, _ *rand.Rand) error {
	return client.Inc(string(appendPlain([]byte("http.requests"), i%p.metrics, i/p.metrics)), 1, 1)
}

func (p plainCounters) readings() []string {
	paths := make([]string, p.size())
	for i := range paths {
		paths[i] = string(appendPlain([]byte("/v1/external/http.requests"), i%p.metrics, i/p.metrics)) + ":total"
	}
	return paths
}

// plainTimers are timers as "http.latency.m7.h3:32|ms". Latencies are log-normal around 20 ms, cut to 1 to
// 999 ms, as those of one service mostly are.
type plainTimers struct{ metrics, hosts int }

func (p plainTimers) size() int { return p.metrics * p.hosts }

func (p plainTimers) appendLine(dst []byte, i int, random *rand.Rand) []byte {
	dst = appendPlain(append(dst, "http.latency"...), i%p.metrics, i/p.metrics)
	return append(strconv.AppendInt(append(dst, ':'), latency(random), 10), "|ms"...)
}

func (p plainTimers) call(client statsd.StatSender, i int, random *rand.Rand) error {
	return client.Timing(string(appendPlain([]byte("http.latency"), i%p.metrics, i/p.metrics)), latency(random), 1)
}

// readings: a timer has no total, only what it counted in a window.
func (p plainTimers) readings() []string {
	paths := make([]string, p.size())
	for i := range paths {
		paths[i] = string(appendPlain([]byte("/v1/external/http.latency"), i%p.metrics, i/p.metrics)) + ":count:1m"
	}
	return paths
}

func appendPlain(dst []byte, metric, host int) []byte {
	dst = strconv.AppendInt(append(dst, ".m"...), int64(metric), 10)
	return strconv.AppendInt(append(dst, ".h"...), int64(host), 10)
}
