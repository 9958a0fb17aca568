package pushgateway

import (
	"bufio"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// listGroups answers GET /api/v1/metrics in the form of a Pushgateway: a group's families are
// fields beside its labels, and all values are strings.
func (h *Handler) listGroups(x *httpserver.Request) {
	page, f := h.beginPage(x)
	if f != nil {
		x.Fail(f)
		return
	}
	groups, f := h.readableGroups(x)
	if f != nil {
		page.End()
		x.Fail(f)
		return
	}
	x.HTTP.SetContentType(httpserver.ContentType)
	x.WritePage(page, func(w *bufio.Writer) error {
		_, _ = w.WriteString(`{"status":"success","data":[`)
		for i := range groups {
			if i > 0 {
				_ = w.WriteByte(',')
			}
			text, err := json.Marshal(groupJSON(&groups[i]))
			if err != nil { // impossible: no part of it can fail
				panic("push: a group cannot be encoded: " + err.Error())
			}
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		_, err := w.WriteString("]}\n")
		return err
	})
}

type familyJSON struct {
	Timestamp string           `json:"time_stamp"`
	Type      string           `json:"type"`
	Help      string           `json:"help,omitempty"`
	Metrics   []map[string]any `json:"metrics"`
}

func groupJSON(g *group.Group) map[string]any {
	all := map[string]any{}
	if !g.Expires.IsZero() {
		all["expires"] = g.Expires.UTC().Format(time.RFC3339Nano)
	}
	for f, pushed := range g.Families() {
		all[f.Name] = newFamilyJSON(f, pushed)
	}
	own := group.PushTimeFamilies([]group.Group{*g})
	for i := range own {
		at := g.Pushed
		if at.IsZero() || i == 0 && g.Failed.After(at) {
			at = g.Failed
		}
		all[own[i].Name] = newFamilyJSON(&own[i], at)
	}
	all["labels"] = g.Key.Labels.Map()
	all["last_push_successful"] = !g.Failed.After(g.Pushed)
	return all
}

func newFamilyJSON(f *exposition.Family, at time.Time) familyJSON {
	name := strings.ToUpper(f.Type.String())
	if f.Type == exposition.GaugeHistogramType {
		name = "GAUGE_HISTOGRAM" // as client_model spells it
	}
	j := familyJSON{at.UTC().Format(time.RFC3339Nano), name, f.Help, make([]map[string]any, len(f.Metrics))}
	for i := range f.Metrics {
		j.Metrics[i] = metricJSON(&f.Metrics[i])
	}
	return j
}

func metricJSON(m *exposition.Metric) map[string]any {
	j := map[string]any{"labels": labelsJSON(m.Labels)}
	switch {
	case m.Summary != nil:
		quantiles := map[string]string{}
		for _, q := range m.Summary.Quantiles {
			quantiles[floatText(q.Quantile)] = floatText(q.Value)
		}
		j["quantiles"], j["count"], j["sum"] = quantiles, countText(m.Summary.Count), floatText(m.Summary.Sum)
	case m.Histogram != nil:
		j["buckets"], j["count"], j["sum"] = bucketsJSON(m.Histogram), countText(m.Histogram.Count),
			floatText(m.Histogram.Sum)
	default:
		j["value"] = floatText(m.Value)
	}
	return j
}

// bucketsJSON returns a list of buckets for a native histogram, each its rule for bounds, its
// bounds and its count; otherwise the counts by upper bound.
func bucketsJSON(h *exposition.Histogram) any {
	if h.Native != nil && len(h.Native.PositiveSpans)+len(h.Native.NegativeSpans) > 0 {
		all := [][4]any{}
		for _, b := range buckets.NativeBuckets(h.Native) {
			all = append(all, [4]any{b.Rule, floatText(b.Low), floatText(b.High), countText(b.Count)})
		}
		return all
	}
	buckets := map[string]string{}
	for _, b := range h.Buckets {
		buckets[floatText(b.UpperBound)] = countText(b.Count)
	}
	return buckets
}

func labelsJSON(labels []metric.Label) map[string]string {
	m := make(map[string]string, len(labels))
	for _, l := range labels {
		m[l.Key] = l.Value
	}
	return m
}

func floatText(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// countText prints a whole number without exponent.
func countText(v float64) string {
	if v >= 0 && v < 1<<63 && v == float64(uint64(v)) {
		return strconv.FormatUint(uint64(v), 10)
	}
	return floatText(v)
}
