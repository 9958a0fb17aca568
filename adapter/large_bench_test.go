package adapter

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// large is a Source of the largest answer.
type large struct {
	memory
	points []metric.Point
}

func (l *large) Objects(q metric.Query) ([]metric.Point, error) {
	room, err := q.Reserve(len(l.points))
	if err != nil {
		return nil, err
	}
	return append(room[:0], l.points...), nil
}

// BenchmarkLargeAnswer reads one metric of 150,000 pods, over the wire.
func BenchmarkLargeAnswer(b *testing.B) {
	source := &large{points: make([]metric.Point, 150_000)}
	for i := range source.points {
		o := pod(fmt.Sprintf("service-%d-7d9c5b-%05x", i/1000, i))
		o.UID = fmt.Sprintf("8f1e5a3c-0000-4000-8000-%012d", i)
		source.points[i] = metric.Point{Object: o, Value: metric.Int(int64(i)), Time: noon}
	}
	a := start(b, source)
	for _, c := range []struct{ name, media string }{{"json", "application/json"}, {"protobuf", protobuf}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequest(http.MethodGet, a.url+customRoot+"v1beta2/namespaces/shop/pods/*/x", nil)
				must(b, err)
				req.Header.Set("Accept", c.media)
				req.Header.Set("Accept-Encoding", "identity")
				resp, err := a.client.Do(req)
				must(b, err)
				n, err := io.Copy(io.Discard, resp.Body)
				if err != nil || resp.StatusCode != http.StatusOK || n < 10<<20 {
					b.Fatal(resp.Status, n, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
