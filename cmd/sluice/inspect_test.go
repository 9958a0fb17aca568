package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// A metric has the autoscalers that name it: each once, the first by name, and the number of the others.
func TestReadersOfAMetric(t *testing.T) {
	const autoscalers, metrics = inspect.MetricReaders + 20, 5
	asked := ""
	i := inspection{eachMetric: func(namespace string, f func(*inspect.Autoscaler, *inspect.AutoscalerMetric, int)) {
		asked = namespace
		for n := range autoscalers {
			a := &inspect.Autoscaler{Namespace: "shop", Name: fmt.Sprintf("hpa-%03d", n)}
			for window := range metrics {
				f(a, &inspect.AutoscalerMetric{Source: inspect.SourcePods, Name: fmt.Sprintf("hits:rate:%dm", window+1)}, 0)
			}
			if n%2 == 0 {
				f(a, &inspect.AutoscalerMetric{Source: inspect.SourceObject, ObjectKind: "Service", Name: "rolled"}, 1)
				f(a, &inspect.AutoscalerMetric{Source: inspect.SourceObject, ObjectKind: "Service", Name: "own"}, 0)
				f(a, &inspect.AutoscalerMetric{Source: inspect.SourceExternal, Name: strings.Repeat("m", 60_000)}, 0) // no metric
			}
		}
	}}
	readers := i.readers("shop")
	if asked != "shop" || len(readers) != 3 {
		t.Fatalf("%d metrics of namespace %q", len(readers), asked)
	}
	hits := readers[metricRead{"shop", "hits", inspect.SourcePods}]
	if hits == nil || len(hits.names) != inspect.MetricReaders || hits.more != 20 || hits.names[0] != "shop/hpa-000" || hits.names[1] != "shop/hpa-001" {
		t.Errorf("%+v", hits)
	}
	for _, of := range []metricRead{{"shop", "rolled", inspect.SourcePods}, {"shop", "own", inspect.SourceObject}} {
		if one := readers[of]; one == nil || len(one.names) != autoscalers/2 || one.more != 0 {
			t.Errorf("%+v: %+v", of, one)
		}
	}
}
