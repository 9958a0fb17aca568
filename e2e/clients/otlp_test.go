package clients

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	otelmetric "go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// otlpClient is OpenTelemetry's SDK with manual exports.
type otlpClient struct {
	t        *testing.T
	provider *sdk.MeterProvider
	otelmetric.Meter
}

func newOTLPClient(t *testing.T, s *server.Server, attributes []attribute.KeyValue, options ...otlpmetrichttp.Option) *otlpClient {
	t.Helper()
	exporter, err := otlpmetrichttp.New(t.Context(), append([]otlpmetrichttp.Option{
		otlpmetrichttp.WithEndpointURL("http://" + s.HTTP + "/v1/metrics"),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}),
	}, options...)...)
	must(t, err)
	return exportingOTLP(t, exporter, attributes)
}

func exportingOTLP(t *testing.T, exporter sdk.Exporter, attributes []attribute.KeyValue) *otlpClient {
	t.Helper()
	exponential := sdk.NewView(sdk.Instrument{Name: "exponential"}, sdk.Stream{Aggregation: sdk.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}})
	provider := sdk.NewMeterProvider(
		sdk.WithReader(sdk.NewPeriodicReader(exporter, sdk.WithInterval(time.Hour))),
		sdk.WithResource(resource.NewSchemaless(attributes...)), sdk.WithView(exponential),
	)
	c := &otlpClient{t, provider, provider.Meter("e2e")}
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return c
}

func (c *otlpClient) flush() {
	c.t.Helper()
	must(c.t, c.provider.ForceFlush(c.t.Context()))
}

// made returns a created instrument.
func made[T any](instrument T, err error) T {
	if err != nil {
		panic(err)
	}
	return instrument
}

// Every instrument of the SDK, in both temporalities and both encodings, exported twice.
func TestOTLPEveryInstrument(t *testing.T) {
	t.Parallel()
	temporalities := map[string]sdk.TemporalitySelector{
		"cumulative": sdk.DefaultTemporalitySelector,
		"delta":      func(sdk.InstrumentKind) metricdata.Temporality { return metricdata.DeltaTemporality },
		"SDK delta":  sdk.DeltaTemporalitySelector,
		"low memory": sdk.LowMemoryTemporalitySelector,
	}
	for name, selector := range temporalities {
		for coding, compression := range map[string]otlpmetrichttp.Compression{"plain": otlpmetrichttp.NoCompression, "gzip": otlpmetrichttp.GzipCompression} {
			t.Run(name+"/"+coding, func(t *testing.T) {
				t.Parallel()
				s := server.New(t)
				s.Start()
				c := newOTLPClient(t, s, []attribute.KeyValue{attribute.String("service.name", "cart"), attribute.String("host.name", "h")},
					otlpmetrichttp.WithTemporalitySelector(selector), otlpmetrichttp.WithCompression(compression))
				everyInstrument(t, c, s, name == "cumulative")
			})
		}
	}
}

func everyInstrument(t *testing.T, c *otlpClient, s *server.Server, isCumulative bool) {
	t.Helper()
	ctx := t.Context()
	requests, bytes := made(c.Int64Counter("requests")), made(c.Float64Counter("bytes"))
	active, load := made(c.Int64UpDownCounter("active")), made(c.Float64Gauge("load"))
	explicit, exponential := made(c.Float64Histogram("explicit", otelmetric.WithExplicitBucketBoundaries(1, 10, 50))), made(c.Float64Histogram("exponential"))
	observed := int64(0)
	made(c.Int64ObservableCounter("observed", otelmetric.WithInt64Callback(func(_ context.Context, o otelmetric.Int64Observer) error {
		observed += 1 << 40
		o.Observe(observed + 1)
		return nil
	})))
	route := otelmetric.WithAttributes(attribute.String("http.route", "/cart"), attribute.Int("code", 200))
	record := func() {
		requests.Add(ctx, 5, route)
		bytes.Add(ctx, 2.5)
		active.Add(ctx, 3)
		active.Add(ctx, -1)
		load.Record(ctx, 0.75)
		for i := range 100 {
			explicit.Record(ctx, float64(i))
			exponential.Record(ctx, float64(i))
		}
	}
	record()
	c.flush()
	record()
	c.flush()
	want(t, s, map[string]float64{"requests:total": 10, "bytes:total": 5, "active": 4, "load": 0.75, "observed:total": 1<<41 + 1})
	// The first value of a running total is the baseline.
	counted := 200.0
	if isCumulative {
		counted = 100
	}
	for _, name := range []string{"explicit", "exponential"} {
		if got := s.Sum(name + ":count"); got != counted {
			t.Errorf("%s has %v observations, want %v", name, got, counted)
		}
		if got := s.Sum(name + ":mean"); math.Abs(got-49.5) > 1e-6 {
			t.Errorf("the mean of %s is %v, want 49.5", name, got)
		}
	}
	if got := s.Sum("exponential:p90"); math.Abs(got-90) > 4 {
		t.Errorf("p90 is %v, want 90", got)
	}
	items, err := s.External("requests:total")
	if err != nil || len(items) != 1 || len(items[0].Labels) != 3 || items[0].Labels["http.route"] != "/cart" || items[0].Labels["code"] != "200" || items[0].Labels["service.name"] != "cart" {
		t.Errorf("items %v (%v): want one with http.route=/cart, code=200, service.name=cart", items, err)
	}
	m := s.Metrics()
	m.CheckLaw(t, "http")
	if got := m.Of("sluice_samples_rejected_total", "http", ""); got != 0 {
		t.Errorf("%v samples were rejected", got)
	}
}

// The SDK pushes to an agent while its server is killed and started again: values are those of a server that was there all the time.
func TestOTLPToAnAgent(t *testing.T) {
	t.Parallel()
	for name, selector := range map[string]sdk.TemporalitySelector{"cumulative": sdk.DefaultTemporalitySelector,
		"delta": func(sdk.InstrumentKind) metricdata.Temporality { return metricdata.DeltaTemporality }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.New(t, "--windows", "10s,1h") // however long it takes, all is in a window
			s.WithAgents()
			s.Start()
			a := s.NewAgent("node-1")
			a.Streams(t.TempDir())
			a.Start()
			c := newOTLPClient(t, s, nil, otlpmetrichttp.WithEndpointURL("http://"+a.HTTP+"/v1/metrics"),
				otlpmetrichttp.WithTemporalitySelector(selector))
			ctx := t.Context()
			requests, active := made(c.Int64Counter("requests")), made(c.Int64UpDownCounter("active"))
			explicit := made(c.Float64Histogram("explicit", otelmetric.WithExplicitBucketBoundaries(1, 10, 50)))
			exponential := made(c.Float64Histogram("exponential"))
			record := func() {
				requests.Add(ctx, 5)
				active.Add(ctx, 2)
				for i := range 100 {
					explicit.Record(ctx, float64(i))
					exponential.Record(ctx, float64(i))
				}
				c.flush()
			}
			record()
			server.Eventually(t, func() string {
				if got := s.Sum("requests:total"); got != 5 {
					return fmt.Sprint("requests:total is ", got)
				}
				return ""
			})
			s.Kill()
			record()
			s.Start()
			record()
			a.Stop() // it tells all
			counted := 300.0
			if name == "cumulative" { // the first value of a running total is the baseline
				counted = 200
			}
			want(t, s, map[string]float64{"requests:total": 15, "active": 6, "explicit:count:1h": counted, "exponential:count:1h": counted})
			if got := s.Sum("exponential:p90:1h"); math.Abs(got-90) > 4 {
				t.Errorf("p90 is %v, want 90", got)
			}
			s.Stop()
		})
	}
}

// An SDK configured by environment variables only.
func TestOTLPByEnvironment(t *testing.T) {
	s := server.New(t)
	s.Start()
	for key, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT":               "http://" + s.HTTP + "/v1/metrics",
		"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION":            "gzip",
		"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
		"OTEL_RESOURCE_ATTRIBUTES":                          "service.name=cart,k8s.pod.name=web-1,k8s.namespace.name=e2e",
	} {
		t.Setenv(key, value)
	}
	exporter := made(otlpmetrichttp.New(t.Context()))
	provider := sdk.NewMeterProvider(sdk.WithReader(sdk.NewPeriodicReader(exporter)), sdk.WithResource(made(resource.New(t.Context(), resource.WithFromEnv()))))
	made(provider.Meter("e2e").Int64Counter("jobs")).Add(t.Context(), 3)
	must(t, provider.Shutdown(t.Context()))
	// A delta counts from the first export on.
	for _, metric := range []string{"jobs:total", "jobs:count"} {
		if got, err := s.Pod("web-1", metric); err != nil || got != 3 {
			t.Errorf("%s is %v (%v), want 3", metric, got, err)
		}
	}
}

// The SDK reports rejected data points and does not retry. A gauge that is NaN has no value.
func TestOTLPPartialSuccess(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	c := newOTLPClient(t, s, nil)
	gauge, reserved := made(c.Float64Gauge("gauge")), made(c.Float64Gauge("status"))
	gauge.Record(t.Context(), 1)
	c.flush()
	want(t, s, map[string]float64{"gauge": 1})
	gauge.Record(t.Context(), math.NaN())
	reserved.Record(t.Context(), 1)
	err := c.provider.ForceFlush(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"status" cannot be queried`) || !strings.Contains(err.Error(), "1 metric data points rejected") {
		t.Errorf("the SDK says %v", errors.Unwrap(err))
	}
	if items, err := s.External("gauge"); err == nil && len(items) > 0 {
		t.Errorf("a gauge that is NaN has the value %v", items)
	}
}

// A resource's attributes of its pod choose the series' object and are not labels.
func TestOTLPOfAPod(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	for i := range 2 {
		c := newOTLPClient(t, s, []attribute.KeyValue{
			attribute.String("k8s.pod.name", fmt.Sprint("web-", i)), attribute.String("k8s.namespace.name", "e2e"),
			attribute.String("k8s.pod.uid", "u"), attribute.String("k8s.deployment.name", "web"), attribute.String("service.instance.id", "i"),
		})
		made(c.Int64Gauge("depth")).Record(t.Context(), int64(7+i))
		c.flush()
	}
	for i := range 2 {
		if got, err := s.Pod(fmt.Sprint("web-", i), "depth"); err != nil || got != float64(7+i) {
			t.Errorf("web-%d has depth %v (%v), want %d", i, got, err, 7+i)
		}
	}
}

// An exporter that speaks gRPC to the HTTP port says what docs/troubleshooting.md quotes.
func TestOTLPOverGRPCIsQuoted(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	exporter, err := otlpmetricgrpc.New(t.Context(), otlpmetricgrpc.WithEndpointURL("http://"+s.HTTP),
		otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}))
	must(t, err)
	defer exporter.Shutdown(context.Background())
	gauge := metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{{Value: 1}}}
	err = exporter.Export(t.Context(), &metricdata.ResourceMetrics{Resource: resource.Empty(),
		ScopeMetrics: []metricdata.ScopeMetrics{{Metrics: []metricdata.Metrics{{Name: "one", Data: gauge}}}}})
	if err == nil {
		t.Fatal("the export succeeded")
	}
	_, row, quoted := strings.Cut(page(t, "docs", "troubleshooting.md"), "an OpenTelemetry exporter over gRPC says ")
	row, _, _ = strings.Cut(row, "|")
	quotes := strings.Split(row, `"`)
	for i := 1; i < len(quotes); i += 2 {
		quoted = quoted && strings.Contains(err.Error(), quotes[i])
	}
	if !quoted {
		t.Errorf("the exporter says %q; docs/troubleshooting.md quotes %q", err, row)
	}
}
