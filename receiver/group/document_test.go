package group

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

func withEverything(t testing.TB) *fixture {
	f := newFixture(nil)
	f.now = time.Unix(0, 1_700_000_000_123_456_789)
	native := &exposition.Native{Schema: -2, ZeroThreshold: 1e-9, ZeroCount: 2,
		PositiveSpans: []exposition.Span{{Offset: -3, Length: 2}, {Offset: 4, Length: 1}}, PositiveCounts: []float64{1, 2.5, 3}}
	families := []exposition.Family{
		{Name: "g", Type: exposition.GaugeType, Help: "ä\n", Metrics: []exposition.Metric{{Value: -0.25}, {Value: nan, Labels: []metric.Label{{Key: "l", Value: ""}}}}},
		{Name: "c", Type: exposition.CounterType, Metrics: []exposition.Metric{{Value: 1 << 60}}},
		{Name: "u", Metrics: []exposition.Metric{{Value: math.Inf(-1)}, {Value: math.Copysign(0, -1), Labels: []metric.Label{{Key: "job", Value: "x"}, {Key: "q", Value: "x"}}}}},
		{Name: "s", Type: exposition.SummaryType, Metrics: []exposition.Metric{{Summary: &exposition.Summary{Count: 3, Sum: 4.5, Quantiles: []exposition.Quantile{{Quantile: .5, Value: 1}, {Quantile: .9, Value: nan}}}}}},
		{Name: "h", Type: exposition.HistogramType, Metrics: []exposition.Metric{{Histogram: &exposition.Histogram{Count: 6, Sum: nan, Native: native,
			Buckets: []exposition.Bucket{{UpperBound: .5, Count: 1}, {UpperBound: math.Inf(1), Count: 6}}}}}},
	}
	_, r := f.Push(&Push{Key: keyOf("job=a,namespace=shop,sluice_object=pods/x"), Object: metric.Object{Resource: "pods", Namespace: "shop", Name: "x"},
		Families: families, TTL: time.Hour, Now: f.now, Applier: f.table})
	if r != nil {
		t.Fatal(r.Message)
	}
	f.RecordFailure(keyOf("job=a,namespace=shop,sluice_object=pods/x"), metric.Object{}, 0, f.now.Add(1))
	if _, r := f.Push(&Push{Key: keyOf("job=empty"), Now: f.now, Applier: f.table}); r != nil {
		t.Fatal(r.Message)
	}
	return f
}

// A restored group equals the saved one, including the unserved marks.
func TestDocuments(t *testing.T) {
	f := withEverything(t)
	f.T = t
	again := &fixture{t, New(DefaultConfig(), f.table), f.table, f.now}
	keys := f.Changed(false)
	if len(keys) != 2 || len(f.Changed(false)) != 0 || len(f.Changed(true)) != 2 {
		t.Errorf("%d groups have changed, want 2, once", len(keys))
	}
	for _, key := range keys {
		value, there := f.AppendDocument([]byte("before"), key)
		if !there {
			t.Fatal("a group is not there")
		}
		value, _ = bytes.CutPrefix(value, []byte("before"))
		must(t, again.RestoreDocument(key, value))
		once, _ := again.AppendDocument(nil, key)
		if !bytes.Equal(once, value) {
			t.Error("what is restored is written otherwise")
		}
		t.Logf("%d bytes", len(value))
	}
	before, after := f.All(nil), again.All(nil)
	if len(after) != 2 || fmt.Sprint(MergedFamilies(before, exposition.AllowUTF8)) == "" || string(exposition.Append(nil, exposition.Text, MergedFamilies(before, exposition.AllowUTF8)...)) != string(exposition.Append(nil, exposition.Text, MergedFamilies(after, exposition.AllowUTF8)...)) {
		t.Error("what is restored is exposed otherwise")
	}
	for i := range before {
		if before[i].Key != after[i].Key || before[i].Object != after[i].Object || !before[i].Expires.Equal(after[i].Expires) || !before[i].Pushed.Equal(after[i].Pushed) {
			t.Errorf("%+v, want %+v", after[i], before[i])
		}
	}
	for i := range before {
		for j, old := range before[i].contents.families {
			if restored := after[i].contents.families[j]; !reflect.DeepEqual(restored.unserved, old.unserved) || restored.pushed != old.pushed {
				t.Errorf("%s: unserved %v, pushed %v, want %v and %v", old.Name, restored.unserved, restored.pushed, old.unserved, old.pushed)
			}
		}
	}
	old, restored := before[0].contents.find("h"), after[0].contents.find("h")
	if old == nil {
		old, restored = before[1].contents.find("h"), after[1].contents.find("h")
	}
	if !reflect.DeepEqual(old.Metrics[0].Histogram.Native, restored.Metrics[0].Histogram.Native) {
		t.Errorf("%+v, want %+v", restored.Metrics[0].Histogram.Native, old.Metrics[0].Histogram.Native)
	}
	again.balanced()
	// Unserved series are not removed from the table; served ones are.
	again.Delete(keyOf("job=a,namespace=shop,sluice_object=pods/x"))
	again.serves("")
	if _, there := again.AppendDocument(nil, keyOf("job=a,namespace=shop,sluice_object=pods/x").Hash()); there {
		t.Error("a deleted group has a document")
	}
	if changed := again.Changed(false); len(changed) != 1 {
		t.Errorf("%d have changed, want the deleted one", len(changed))
	}
}

func TestDocumentsThatAreNone(t *testing.T) {
	f := withEverything(t)
	for _, key := range f.Changed(true) {
		value, _ := f.AppendDocument(nil, key)
		for i := range value {
			if err := New(DefaultConfig(), f.table).RestoreDocument(key, value[:i]); err == nil {
				t.Fatalf("the first %d of %d bytes were taken", i, len(value))
			}
		}
		value[0]++
		if err := New(DefaultConfig(), f.table).RestoreDocument(key, value); err == nil {
			t.Error("another version was taken")
		}
		value[0]--
		if err := New(DefaultConfig(), f.table).RestoreDocument(Hash{}, value); err == nil {
			t.Error("another group's document was taken")
		}
	}
}

// Reading any bytes neither panics nor takes much memory. A document that can be read is written
// and read again the same.
func FuzzDocument(f *testing.F) {
	all := withEverything(f)
	for _, key := range all.Changed(true) {
		value, _ := all.AppendDocument(nil, key)
		f.Add(value)
	}
	replica := New(DefaultConfig(), all.table)
	replica.Replicate("a", slog.New(slog.DiscardHandler))
	for _, key := range all.Changed(true) {
		value, _ := all.AppendDocument(nil, key)
		must(f, replica.RestoreDocument(key, value))
	}
	for _, d := range replica.AllShared() {
		f.Add(d.Value)
	}
	f.Add([]byte{documentVersion, 5}) // a text that came before the first
	f.Fuzz(func(t *testing.T, value []byte) {
		g, c, err := readDocument(value)
		if err != nil {
			return
		}
		written := appendDocument(nil, g, c)
		g, c, err = readDocument(written)
		if err != nil {
			t.Fatalf("%v: %x of %x", err, written, value)
		}
		if again := appendDocument(nil, g, c); !bytes.Equal(again, written) {
			t.Errorf("%x, want %x", again, written)
		}
		for _, family := range c.families {
			var d sampleBuilder
			for i := range family.Metrics {
				var s metric.Sample
				d.build(&s, &g.about, family, i)
			}
		}
	})
}

// A family that outlives the others of its document keeps nothing of these.
func TestFamiliesKeepNoDocument(t *testing.T) {
	f := newFixture(nil)
	const size = 1 << 20
	_, r := f.Push(&Push{Key: keyOf("job=a"), Now: time.Unix(1, 0), Applier: f.table, Families: []exposition.Family{
		{Name: "a", Metrics: []exposition.Metric{{Value: nan}}}, {Name: "large", Help: strings.Repeat("x", size), Metrics: []exposition.Metric{{Value: nan}}}}})
	if r != nil {
		t.Fatal(r.Message)
	}
	value, _ := f.AppendDocument(nil, f.Changed(true)[0])
	const documents = 20
	var kept [documents]*family
	before := heapInUse()
	for i := range kept {
		_, c, err := readDocument(value)
		must(t, err)
		kept[i] = c.families[0]
	}
	if took := heapInUse() - before; took > documents*size/4 || kept[0].Name != "a" {
		t.Errorf("families of some bytes keep %d bytes of %d documents", took, documents)
	}
	runtime.KeepAlive(kept)
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
