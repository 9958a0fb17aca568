package agent

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// A Collector counts the memory that samples take, whatever clients send: a summary's quantiles of 0 have two bytes each
// in a request, and 72 here.
func TestMemoryIsCounted(t *testing.T) {
	labels := make([]metric.Label, 64)
	for i := range labels {
		labels[i].Key = fmt.Sprintf("%c%c", 'a'+i%26, 'a'+i/26)
	}
	named := func(i int) []byte { return fmt.Append(nil, "m", i) }
	one, quantiles := []byte("a"), make([]metric.Quantile, metric.MaxQuantiles)
	for name, sample := range map[string]func(i int) metric.Sample{
		"series": func(i int) metric.Sample {
			return metric.Sample{Name: named(i), Kind: metric.Counter, Op: metric.Add, Whole: 1}
		},
		"labels": func(i int) metric.Sample {
			return metric.Sample{Name: named(i), Kind: metric.Gauge, Op: metric.Assign, Fields: labels}
		},
		"objects": func(i int) metric.Sample {
			return metric.Sample{Name: one, Kind: metric.Gauge, Op: metric.Assign, Object: &metric.Object{Resource: "pods", Namespace: "shop", Name: string(named(i))}}
		},
		"dates": func(i int) metric.Sample {
			return metric.Sample{Name: one, Kind: metric.Gauge, Op: metric.Assign, Dated: int64(i + 1)}
		},
		"members": func(i int) metric.Sample {
			return metric.Sample{Name: one, Kind: metric.Set, Op: metric.Insert, Member: named(i)}
		},
		"values": func(i int) metric.Sample {
			return metric.Sample{Name: one, Kind: metric.Timer, Op: metric.Observe, Whole: 1, Rate: float64(i%2+1) / 2}
		},
		"histograms": func(int) metric.Sample {
			return metric.Sample{Name: one, Kind: metric.Timer, Op: metric.Merge, Histogram: &metric.Histogram{}}
		},
		"quantiles": func(int) metric.Sample {
			return metric.Sample{Name: one, Kind: metric.Timer, Op: metric.Merge, Histogram: &metric.Histogram{Quantiles: quantiles}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := collector(24 << 20)
			c.maxSeries = DefaultConfig().MaxSeries
			before := heap()
			for i := 0; c.bytes < 15<<20; i++ {
				if s := sample(i); c.apply(&s) != metric.Applied {
					t.Fatalf("sample %d is rejected at %d bytes", i, c.bytes)
				}
				if i%1000 == 0 {
					c.cut(time.Now())
				}
			}
			c.cut(time.Now())
			if took := heap() - before; took > c.bytes*5/4 {
				t.Errorf("it takes %d bytes, and counts %d", took, c.bytes)
			}
			runtime.KeepAlive(c)
		})
	}
}

// heap is the memory of what is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
