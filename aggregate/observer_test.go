package aggregate

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/sluice-metrics/sluice/metric"
)

// witnessed is an Observer that counts calls.
type witnessed []string

func (w *witnessed) SeriesCreated(o *metric.Object, name string, kind metric.Kind, labels metric.Labels) {
	*w = append(*w, fmt.Sprintf("%s %s %s %s", o.Name, name, kind, labels))
}

func TestObserverHearsOfEachNewSeriesOnce(t *testing.T) {
	f := inCluster(t)
	var told witnessed
	f.SetObserver(&told)
	a := senderOf("a", "1")
	f.send(a, "m:1|c", "m:1|c|#x:1", "m:1|c|#x:1", "n:1|g", "n:1|c")
	want := witnessed{"a m counter {}", "a m counter {x=1}", "a n gauge {}"}
	if !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}

	// ReplaySeries reports restored series, without removed ones.
	f.Roll()
	saved := newSaved()
	saved.flush(f.Table, each)
	back := newFixture(t)
	var again witnessed
	back.SetObserver(&again)
	back.w.Offline()
	must(t, saved.into(back.Table))
	back.Shed(a.Pod.Object(), "n")
	if back.ReplaySeries("nodes"); len(again) != 0 {
		t.Errorf("of nodes it is told %q", again)
	}
	back.ReplaySeries("pods")
	slices.Sort(again)
	slices.Sort(want[:2])
	if !slices.Equal(again, want[:2]) {
		t.Errorf("%q, want %q", again, want[:2])
	}
}

func TestZeroHasTheTimeAndWindowOfItsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inCluster(t)
		f.send(senderOf("a", "1"), "m:0|c")
		for _, asked := range []string{"m", "m:rate:10s", "m:count"} {
			points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "*", Expression: metric.ParseExpression(asked)})
			if err != nil || len(points) != 1 {
				t.Fatal(asked, points, err)
			}
			zero := NewMerged(f.Table).Begin().Zero(metric.ParseExpression(asked))
			if !zero.Time.Equal(points[0].Time) || zero.Window != points[0].Window || zero.Value != points[0].Value {
				t.Errorf("%s: %+v, want %+v", asked, zero, points[0])
			}
		}
	})
}

func TestQueryIsToldTheKindThatAnswers(t *testing.T) {
	f := inCluster(t)
	f.send(senderOf("a", "1"), "m:1|c", "l:1|ms")
	for asked, want := range map[string]metric.Kind{"m": metric.Counter, "l": metric.Timer, "none": metric.NoKind} {
		got := metric.NoKind
		_, _ = f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "*", Expression: metric.ParseExpression(asked), Kind: &got})
		if got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
}
