package route

import (
	"fmt"
	"net/http"
	"runtime"
	runtimemetrics "runtime/metrics"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answers that a reader reads slowly take room until they are written, and leave some to others and to small ones. An answer
// that fails takes none.
func TestAnswersHaveRoom(t *testing.T) {
	s := newStandIn(t, func(w http.ResponseWriter, r *http.Request) {
		megabytes := 0
		_, _ = fmt.Sscanf(r.URL.Path[strings.LastIndex(r.URL.Path, "/"):], "/other_of_%d", &megabytes)
		answers(200, "application/json", oneValue+strings.Repeat(" ", megabytes<<20))(w, r)
	})
	r := routerOf(t, patient(), s.spec())
	p := r.providers[0]
	ask := func(reader string, megabytes int) (written func(), err error) {
		_, written, err = p.Ask(t.Context(), Question{Namespace: "shop", Name: fmt.Sprint("other_of_", megabytes), Share: reader})
		return written, err
	}
	slow, err := ask("slow", 9)
	must(t, err)
	for range 2 { // what is refused takes nothing
		_, err = ask("slow", 9)
		wantStatus(t, err, 503, metav1.StatusReasonServiceUnavailable, "more than there is room for", "of which one reader has at most three times what is left")
	}
	if why, _ := p.Fault(); why != "" {
		t.Errorf("a reader who has no room is taken for a fault: %s", why)
	}
	for reader, megabytes := range map[string]int{"slow": 0, "other": 4} {
		written, err := ask(reader, megabytes)
		must(t, err)
		written()
	}
	_, err = ask("slow", 11)
	wantStatus(t, err, 503, metav1.StatusReasonServiceUnavailable, "more than there is room for")
	slow()
	if held := p.answers.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	slow, err = ask("slow", 9)
	must(t, err)
	slow()
}

// A decoded answer takes about as much memory as it counts as, or less.
func TestMemoryOfAnswers(t *testing.T) {
	const of = `"timestamp":"2026-03-14T12:00:00Z","value":"42500m"}`
	for name, item := range map[string]string{
		"empty values": `{}`, "one label": `{"metricName":"datadogmetric@shop:orders-waiting","metricLabels":{"queue":"mail"},` + of,
		"no labels":  `{"metricName":"s0-rabbitmq-orders","metricLabels":null,` + of,
		"six labels": `{"metricName":"orders","metricLabels":{"a":"of-some","b":"of-some","c":"of-some","d":"of-some","e":"of-some","f":"of-some"},` + of,
	} {
		body := []byte(strings.Replace(oneValue, "[", "["+strings.Repeat(item+",", 10_000), 1))
		live() // a pool keeps what it has for a collection more
		before := live()
		list, fault := readValues(body)
		if fault != nil {
			t.Fatal(fault.text())
		}
		took, counts := int(live()-before), decodedFactor*sizeOf(body)
		runtime.KeepAlive(list)
		t.Logf("%s: %d bytes each, counted as %d", name, took/10_000, counts/10_000)
		if took > counts*5/4 {
			t.Errorf("%s: %d bytes each, counted as %d", name, took/10_000, counts/10_000)
		}
	}
}

// live is the live heap.
func live() int64 {
	runtime.GC()
	all := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(all)
	return int64(all[0].Value.Uint64())
}
