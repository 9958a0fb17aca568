package clients

import (
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/exp/api/remote"
	writev2 "github.com/prometheus/client_golang/exp/api/remote/genproto/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// remoteClient is Prometheus' own client of remote write.
func remoteClient(t *testing.T, s *server.Server) *remote.API {
	t.Helper()
	api, err := remote.NewAPI("http://"+s.HTTP, remote.WithAPIPath("api/v1/write"), remote.WithAPIHTTPClient(&http.Client{Timeout: time.Minute}))
	must(t, err)
	return api
}

// request2 builds a request of 2.0 from one scrape: all samples have the same time.
type request2 struct {
	at      int64
	symbols writev2.SymbolsTable
	series  []*writev2.TimeSeries
}

func newRequest2() *request2 {
	return &request2{at: time.Now().UnixMilli(), symbols: writev2.NewSymbolTable()}
}

func (r *request2) add(kind writev2.Metadata_MetricType, labels ...string) *writev2.TimeSeries {
	one := &writev2.TimeSeries{LabelsRefs: r.symbols.SymbolizeLabels(append([]string{"__name__"}, labels...), nil), Metadata: &writev2.Metadata{Type: kind}}
	r.series = append(r.series, one)
	return one
}

func (r *request2) value(kind writev2.Metadata_MetricType, v float64, labels ...string) {
	r.add(kind, labels...).Samples = []*writev2.Sample{{Value: v, Timestamp: r.at}}
}

func (r *request2) request() *writev2.Request {
	return &writev2.Request{Symbols: r.symbols.Symbols(), Timeseries: r.series}
}

const (
	counterType   = writev2.Metadata_METRIC_TYPE_COUNTER
	gaugeType     = writev2.Metadata_METRIC_TYPE_GAUGE
	histogramType = writev2.Metadata_METRIC_TYPE_HISTOGRAM
)

// scrape is the request of a Prometheus for one scrape; all values grow with the round.
func scrape(round float64) *writev2.Request {
	r := newRequest2()
	r.value(counterType, 1000+round*10, "jobs_total", "queue", "mail")
	r.value(gaugeType, 2.5*round, "depth", "queue", "mail")
	for _, b := range []struct {
		le    string
		count float64
	}{{"0.1", 4}, {"1", 8}, {"+Inf", 10}} {
		r.value(histogramType, b.count*round, "latency_bucket", "le", b.le, "queue", "mail")
	}
	r.value(histogramType, 5*round, "latency_sum", "queue", "mail")
	r.value(histogramType, 10*round, "latency_count", "queue", "mail")
	native := r.add(histogramType, "sizes", "queue", "mail")
	n := int64(round)
	native.Histograms = []*writev2.Histogram{{
		Count: &writev2.Histogram_CountInt{CountInt: uint64(5 * n)}, Sum: 10 * round, Schema: 3, ZeroThreshold: 1e-9,
		ZeroCount:     &writev2.Histogram_ZeroCountInt{ZeroCountInt: uint64(n)},
		PositiveSpans: []*writev2.BucketSpan{{Offset: 8, Length: 2}}, PositiveDeltas: []int64{2 * n, 0}, Timestamp: r.at,
	}}
	custom := r.add(histogramType, "waits", "queue", "mail")
	custom.Histograms = []*writev2.Histogram{{
		Count: &writev2.Histogram_CountInt{CountInt: uint64(6 * n)}, Sum: 9 * round, Schema: -53, CustomValues: []float64{0.5, 1, 2},
		PositiveSpans: []*writev2.BucketSpan{{Offset: 1, Length: 2}}, PositiveDeltas: []int64{2 * n, 2 * n}, Timestamp: r.at,
	}}
	return r.request()
}

func TestRemoteWrite2(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	api := remoteClient(t, s)
	for round := range 3 {
		stats, err := api.Write(t.Context(), remote.WriteV2MessageType, scrape(float64(round+1)))
		if err != nil || stats.Samples != 7 || stats.Histograms != 2 {
			t.Fatalf("%+v %v", stats, err)
		}
	}
	want(t, s, map[string]float64{
		"jobs_total:total": 1030, "jobs_total:count": 20, "depth": 7.5,
		"latency:count": 20, "latency:sum": 10, "latency": 0.5,
		"sizes:count": 10, "sizes:sum": 20, "waits:count": 12, "waits:mean": 1.5,
	})
	// A repeated request, as after a lost answer: nothing counts twice.
	if _, err := api.Write(t.Context(), remote.WriteV2MessageType, scrape(3)); err != nil {
		t.Fatal(err)
	}
	want(t, s, map[string]float64{"jobs_total:count": 20, "latency:count": 20, "sizes:count": 10, "waits:count": 12})
	if m := s.Metrics(); m.Of("sluice_samples_received_total", "http", "") != 20 || m.Of("sluice_samples_applied_total", "http", "") != 20 {
		t.Errorf("the ledger has %v received, %v applied; want 20", m.Of("sluice_samples_received_total", "http", ""), m.Of("sluice_samples_applied_total", "http", ""))
	}
	// The target disappears: its series end.
	gone := newRequest2()
	gone.value(gaugeType, math.Float64frombits(0x7ff0000000000002), "depth", "queue", "mail")
	gone.value(counterType, math.Float64frombits(0x7ff0000000000002), "jobs_total", "queue", "mail")
	if stats, err := api.Write(t.Context(), remote.WriteV2MessageType, gone.request()); err != nil || stats.Samples != 2 {
		t.Fatalf("%+v %v", stats, err)
	}
	for _, metric := range []string{"depth", "jobs_total"} {
		server.Eventually(t, func() string {
			if items, err := s.External(metric); err == nil && len(items) > 0 {
				return metric + " is served though it is stale"
			}
			return ""
		})
	}
}

// Invalid samples are rejected for good; the rest is written, or waits for the other parts of its
// histogram.
func TestRemoteWritePartly(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	r := newRequest2()
	r.value(gaugeType, 1, "good")
	r.value(gaugeType, 1, "job:requests:sum")
	r.value(histogramType, 1, "cut_bucket", "le", "0.5")
	stats, err := remoteClient(t, s).Write(t.Context(), remote.WriteV2MessageType, r.request())
	if err == nil || stats.Samples != 2 || !strings.Contains(err.Error(), "400") || !strings.Contains(err.Error(), "1 of 2 samples were rejected") {
		t.Errorf("%+v %v", stats, err)
	}
	want(t, s, map[string]float64{"good": 1})
}

// encoded is a serialized message: this client's module has no types of 1.0.
type encoded []byte

func (e encoded) Size() int { return len(e) }

func (e encoded) MarshalToSizedBuffer(b []byte) (int, error) { return copy(b, e), nil }

func TestRemoteWrite1(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	api := remoteClient(t, s)
	for round := range 3 {
		var request []byte
		for name, v := range map[string]float64{"jobs_total": float64(100 + round*10), "depth": float64(round)} {
			var series []byte
			for _, pair := range [][2]string{{"__name__", name}, {"queue", "mail"}} {
				label := field(field(nil, 1, []byte(pair[0])), 2, []byte(pair[1]))
				series = field(series, 1, label)
			}
			sample := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(v))
			sample = protowire.AppendVarint(protowire.AppendTag(sample, 2, protowire.VarintType), uint64(time.Now().UnixMilli()))
			request = field(request, 1, field(series, 2, sample))
		}
		if _, err := api.Write(context.Background(), remote.WriteV1MessageType, encoded(request)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s, map[string]float64{"jobs_total:total": 120, "jobs_total:count": 20, "depth": 2})
}

func field(dst []byte, number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}
