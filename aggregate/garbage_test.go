//go:build !race

// Under the race detector pools forget on purpose.

package aggregate

import (
	"fmt"
	"iter"
	"runtime"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// Repeated reads use the same memory again.
func TestReadsLeaveLittleGarbage(t *testing.T) {
	f := inCluster(t)
	var few []metric.Object
	for i := range 1_000 {
		s := senderOf(fmt.Sprintf("web-%d", i), "1")
		f.send(s, "hits:1|c")
		few = append(few, s.Pod.Object())
	}
	q := metric.Query{
		Resource: "pods", Namespace: "shop", Object: "*", Expression: metric.ParseExpression("hits"),
		ListObjects: func(int) (iter.Seq[metric.Object], int, bool) { return listed(few) },
	}
	var before, after runtime.MemStats
	const reads = 100
	for i := range reads + 1 {
		if i == 1 { // the first one makes the room
			runtime.ReadMemStats(&before)
		}
		points, err := f.Objects(q)
		if err != nil || len(points) != len(few) {
			t.Fatal(len(points), err)
		}
		q.Reserve = func(int) ([]metric.Point, error) { return points, nil }
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / reads; each > 10<<10 {
		t.Errorf("%d bytes a read of %d objects", each, len(few))
	}
}
