//go:build !race

// The race detector's own memory would count as the decoder's.

package otlp

import (
	"math"
	"runtime"
	"testing"
)

// A decoded body takes no more memory than DecodedSize says, whatever the body, with what a reader keeps
// of its scopes: a limit on that is a limit on memory.
func TestWeight(t *testing.T) {
	for _, e := range []Encoding{Protobuf, JSON} {
		bodies := hostile(1 << 16)
		if e == JSON {
			bodies = hostileJSON(1 << 16)
		}
		for name, body := range bodies {
			weight, err := DecodedSize(body, e)
			if err != nil {
				t.Errorf("%s of %s: %v", name, e.ContentType(), err)
				continue
			}
			held, made := memory(t, body, e)
			t.Logf("%-22s %s: %5.1f times the body, weight %5.1f, garbage included %5.1f", name, e.ContentType(),
				times(held, body), times(weight, body), times(made, body))
			if held > weight+4096 {
				t.Errorf("%s of %s: %d bytes take %d, but weigh %d", name, e.ContentType(), len(body), held, weight)
			}
			if len(body) > 1000 && made > 8*weight {
				t.Errorf("%s of %s: %d bytes make %d, but weigh %d", name, e.ContentType(), len(body), made, weight)
			}
		}
	}
}

func times(n int64, body []byte) float64 { return float64(n) / math.Max(1, float64(len(body))) }

// memory is what a decoded body holds, with what a reader keeps of its scopes, and what was allocated for it.
func memory(t *testing.T, body []byte, e Encoding) (held, made int64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all, err := Decode(body, e)
	r := NewReader(testOptions)
	if all.ResourceMetrics().Len() > 0 {
		r.setScopes(all.ResourceMetrics().At(0).ScopeMetrics())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(r)
	if err != nil {
		t.Errorf("%.60q: %v", body, err)
	}
	runtime.KeepAlive(all)
	runtime.KeepAlive(body)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc), int64(after.TotalAlloc - before.TotalAlloc)
}
