package console

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// span is the number of seconds that are kept each, and web the row of the series of web.
const span = fineSeconds

var web = seriesKey(&inspect.Series{Object: inspect.Reference{Name: "web"}})

// countingHistory is a history of a source whose looks are counted.
func countingHistory(autoscalers int) (*history, *fakeSource, *atomic.Int64, *atomic.Int64) {
	f, series, reads := &fakeSource{}, new(atomic.Int64), new(atomic.Int64)
	for i := range autoscalers {
		f.autoscalers = append(f.autoscalers, inspect.Autoscaler{Namespace: "shop", Name: "web-" + strconv.Itoa(i), CurrentReplicas: 2,
			Metrics: []inspect.AutoscalerMetric{{Source: "External", Name: "jobs", TargetType: "AverageValue", Target: "5", Asked: true}}})
	}
	f.series = func(string, string, string, int) []inspect.Series {
		return []inspect.Series{{Object: inspect.Reference{Name: "web"}, Value: strconv.FormatInt(series.Add(1), 10)}}
	}
	h := newHistory(f, func() func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (float64, bool) {
		return func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (float64, bool) { reads.Add(1); return 12, true }
	})
	return h, f, series, reads
}

// Nothing is read while nobody looks and no autoscaler names a metric.
func TestNothingIsSampledInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, series, reads := countingHistory(0)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { h.run(ctx); close(done) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if series.Load() != 0 || reads.Load() != 0 || h.size() != 0 {
			t.Errorf("%d series, %d metrics read, %d rows", series.Load(), reads.Load(), h.size())
		}
		s := subject{namespace: "shop", resource: "pods", name: "jobs"}
		h.watch(s, []string{web}, time.Now())
		time.Sleep(5500 * time.Millisecond)
		synctest.Wait()
		if series.Load() < 5 || series.Load() > 7 {
			t.Errorf("%d looks in five seconds", series.Load())
		}
		time.Sleep(2 * linger)
		synctest.Wait()
		if series.Load() > int64(linger/time.Second)+2 || h.size() != 0 {
			t.Errorf("%d looks, %d rows after the page was left", series.Load(), h.size())
		}
		stop()
		<-done
	})
}

// A namespace whose autoscalers take long to read has no values for a while, and the plots of others have theirs.
func TestSlowReadsDelayNoOtherPlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, f, _, _ := countingHistory(1)
		const slow = 5
		for i := range slow {
			one := f.autoscalers[0]
			one.Namespace, one.Name = "flood", "slow-"+strconv.Itoa(i)
			f.autoscalers = slices.Insert(f.autoscalers, i, one)
		}
		reads := map[string]int{}
		h.begin = func() func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (float64, bool) {
			return func(a *inspect.Autoscaler, _ *inspect.AutoscalerMetric) (float64, bool) {
				if reads[a.Name]++; a.Namespace == "flood" {
					time.Sleep(time.Second)
				}
				return 12, true
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { h.run(ctx); close(done) }()
		time.Sleep(10 * time.Minute)
		stop()
		<-done
		if reads["web-0"] < 500 {
			t.Errorf("the other namespace was read %d times in ten minutes", reads["web-0"])
		}
		for i := range slow { // in turns: each second of theirs is paid for by fifty rounds
			name := "slow-" + strconv.Itoa(i)
			held, _ := h.isHeld(subject{of: ofAutoscaler, namespace: "flood", name: name})
			if n := reads[name]; n < 1 || n > 4 || !held {
				t.Errorf("%s was read %d times; it is held: %v", name, n, held)
			}
		}
	})
}

// A later namespace of the name has a plot of its own.
func TestValuesEndWithTheirNamespace(t *testing.T) {
	h, _, _, _ := countingHistory(1)
	now := time.Unix(1_800_000_000, 0)
	shop, bank := subject{namespace: "shop", resource: "pods", name: "jobs"}, subject{namespace: "bank", resource: "pods", name: "jobs"}
	for _, s := range []subject{shop, bank} {
		h.watch(s, []string{web}, now)
	}
	h.round(now)
	h.endNamespace("shop")
	for s, want := range map[subject]bool{shop: false, bank: true, {of: ofAutoscaler, namespace: "shop", name: "web-0"}: false} {
		if _, all := h.read(s, []string{web}, 1, 10); (all != nil) != want {
			t.Errorf("%+v has %v, want some: %v", s, all, want)
		}
	}
	h.watch(shop, []string{web}, now)
	h.round(now.Add(time.Second))
	if _, all := h.read(shop, []string{web}, 1, 2); all == nil || !math.IsNaN(all[0][0]) || math.IsNaN(all[0][1]) {
		t.Errorf("the later namespace has %v", all)
	}
	rows := 0
	for _, r := range h.held {
		rows += len(r.rows)
	}
	if h.size() != rows {
		t.Errorf("%d rows are counted, want %d", h.size(), rows)
	}
}

func TestAutoscalersAreRecorded(t *testing.T) {
	h, f, _, _ := countingHistory(2)
	second := int64(1_800_000_000)
	for i := range int64(700) {
		if i == 300 { // a pause
			continue
		}
		f.autoscalers[0].CurrentReplicas = int32(2 + i%2)
		h.round(time.Unix(second+i, 0))
	}
	of, jobs := subject{of: ofAutoscaler, namespace: "shop", name: "web-0"}, &f.autoscalers[0].Metrics[0]
	last, rows := h.read(of, []string{rowOfMetric(0, jobs), rowReplicas, "nothing"}, 1, span)
	if last != second+699 || len(rows[0]) != span {
		t.Fatalf("%d values up to %d", len(rows[0]), last-second)
	}
	for i, value := range rows[0] {
		at := int64(100 + i)
		switch replicas := float64(2 + at%2); {
		case at == 300 && !math.IsNaN(value):
			t.Errorf("a value %v of a second without one", value)
		case at != 300 && (value != 12/replicas || rows[1][i] != replicas):
			t.Fatalf("second %d: %v per replica of %v; want %v", at, value, rows[1][i], 12/replicas)
		case !math.IsNaN(rows[2][i]):
			t.Errorf("a value of a row that there is not")
		}
	}
	jobs.Name = "secret" // its reader may not be one of jobs
	h.round(time.Unix(second+700, 0))
	_, rows = h.read(of, []string{rowOfMetric(0, jobs)}, 1, 2)
	if !math.IsNaN(rows[0][0]) || rows[0][1] != 4 {
		t.Errorf("another metric in the place of one has its values: %v", rows[0])
	}
}

// The series of a metric that an autoscaler names are recorded though no page shows them, so its page begins
// with ten minutes.
func TestNamedMetricsAreRecorded(t *testing.T) {
	h, _, _, _ := countingHistory(2)
	now := time.Unix(1_800_000_000, 0)
	for i := range span {
		h.round(now.Add(time.Duration(i) * time.Second))
	}
	s := subject{namespace: "shop", name: "jobs"}
	h.watch(s, []string{web}, now.Add(span*time.Second))
	h.round(now.Add(span * time.Second))
	if _, rows := h.read(s, []string{web}, 1, span); len(rows) != 1 || slices.ContainsFunc(rows[0], math.IsNaN) {
		t.Errorf("the values of the metric are %v", rows)
	}
}

// Memory is bounded whatever is named and looked at; pages come before autoscalers that nobody looks at.
func TestTheHistoryIsBounded(t *testing.T) {
	h, _, _, _ := countingHistory(1000)
	now := time.Unix(1_800_000_000, 0)
	h.round(now)
	if n := h.size(); n > maxRows-pageRows || n < 3*200 {
		t.Errorf("%d rows of autoscalers", n)
	}
	shown := subject{of: ofAutoscaler, namespace: "shop", name: "web-999"}
	h.watch(shown, nil, now)
	for i := range 2000 {
		h.watch(subject{namespace: "shop", name: strconv.Itoa(i)}, []string{web}, now)
	}
	h.round(now.Add(time.Second))
	if n := h.size(); n > maxRows {
		t.Errorf("%d rows", n)
	}
	if last, _ := h.read(shown, []string{rowReplicas}, 1, 1); last == 0 {
		t.Error("an autoscaler whose page is open is not recorded")
	}
	h.round(now.Add(2 * linger))
	if n := h.size(); n > maxRows-pageRows {
		t.Errorf("%d rows once the pages are left", n)
	}
}

// Of a metric with more series than a page lists, those are recorded that the page plots, whichever the
// source picks for another number.
func TestThePlottedSeriesAreRecorded(t *testing.T) {
	f := shop()
	f.series = func(_, _, _ string, limit int) (all []inspect.Series) {
		for i := range limit {
			all = append(all, inspect.Series{Labels: map[string]string{"i": strconv.Itoa(1000*limit + i)}, Value: "1"})
		}
		return all
	}
	s := running(t, f)
	_, body := get(t, s, "/metric?namespace=shop&name=queue_depth")
	_, rest, _ := strings.Cut(body, `data-rows="`)
	keys, _, _ := strings.Cut(rest, `"`)
	ids := strings.Split(keys, " ")
	if len(ids) != plottedSeries {
		t.Fatalf("%q are plotted", ids)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, rows := s.history.read(subject{namespace: "shop", name: "queue_depth"}, ids, 1, 1)
		if len(rows) == plottedSeries && !slices.ContainsFunc(rows, func(r []float64) bool { return math.IsNaN(r[0]) }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("of %q the values are %v", ids, rows)
		}
	}
}

// A metric's rows begin with what is known of the time before.
func TestRowsBeginWithThePast(t *testing.T) {
	h, _, _, _ := countingHistory(0)
	h.past = func(string, string, string) []Past {
		return []Past{{Series: inspect.Series{Object: inspect.Reference{Name: "web"}}, Values: []float64{7, 8, 9}}}
	}
	s, now := subject{namespace: "shop", name: "jobs"}, time.Unix(1_800_000_000, 0)
	h.watch(s, []string{web}, now)
	for i := range 2 {
		h.round(now.Add(time.Duration(i) * time.Second))
	}
	if _, rows := h.read(s, []string{web}, 1, 6); !slices.Equal(rows[0][1:], []float64{7, 8, 9, 1, 2}) || !math.IsNaN(rows[0][0]) {
		t.Errorf("the values are %v", rows[0])
	}
}

func TestShortNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"9966666667n": "9.97", "30200m": "30.2", "12345.678": "12346", "12345678": "12345678", "0.016666667": "0.0167", "100.5": "100", "5400m": "5.4", "1m": "0.001", "12": "12", "2k": "2k", "1Gi": "1Gi",
		"2.644651234567": "2.64", "": "", "none": "none",
	} {
		if got := short(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// No series is another one's row because of what its labels contain: a policy may hide one of them.
func TestSeriesKeysDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []inspect.Series{
		{Labels: map[string]string{"team": "a", "visibility": "private"}},
		{Labels: map[string]string{"team": "a,visibility=private"}},
		{Object: inspect.Reference{Name: "web"}, Labels: map[string]string{"a": "1"}},
		{Object: inspect.Reference{Name: "web a=1"}},
		{},
		{Object: inspect.Reference{Name: "value"}},
	} {
		seen[seriesKey(&s)] = true
	}
	if len(seen) != 6 {
		t.Errorf("6 series have %d keys", len(seen))
	}
}
