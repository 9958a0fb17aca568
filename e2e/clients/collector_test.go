package clients

import (
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// The OpenTelemetry Collector's exporters have ten consumers of their queue by default, so batches
// overtake each other. Totals and counts are exact, and the newest value of a gauge stands.
func TestCollectorsExporter(t *testing.T) {
	t.Parallel()
	for name, configured := range map[string]collectorsConfig{
		"HTTP, protobuf": overHTTP(otlphttpexporter.EncodingProto),
		"HTTP, JSON":     overHTTP(otlphttpexporter.EncodingJSON),
		"gRPC":           overGRPC,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.New(t, "--windows", "10s,1m,1h")
			s.WithOTLP()
			s.Start()
			const batches = 900 // the queue has room for 1,000
			batch := newCollectorBatches()
			factory, config := configured(t, s)
			c := startCollectorsExporter(t, factory, config)
			c.consume(batch(0)) // the baseline of the histogram, which is that of its first batch to arrive
			want(t, s, map[string]float64{"depth": 0})
			for i := range batches {
				c.consume(batch(1 + i))
			}
			if err := c.Shutdown(t.Context()); err != nil { // once the queue is empty
				t.Fatal(err)
			}
			want(t, s, map[string]float64{
				"requests:total": 1000 + 7*batches, "requests:count:1h": 7 * batches,
				"jobs:total": 2 * (1 + batches), "jobs:count:1h": 2 * (1 + batches),
				"took:count:1h": 3 * batches, "depth": batches,
			})
			m := s.Metrics()
			m.CheckLaw(t, "http") // which counts samples over gRPC too
			if got := m.Of("sluice_samples_rejected_total", "http", ""); got != 0 {
				t.Errorf("%v samples were rejected", got)
			}
		})
	}
}

// collectorsConfig makes an exporter's settings: its defaults, but for the address.
type collectorsConfig func(*testing.T, *server.Server) (exporter.Factory, component.Config)

func overHTTP(encoding otlphttpexporter.EncodingType) collectorsConfig {
	return func(t *testing.T, s *server.Server) (exporter.Factory, component.Config) {
		factory := otlphttpexporter.NewFactory()
		config := factory.CreateDefaultConfig().(*otlphttpexporter.Config)
		config.ClientConfig.Endpoint, config.Encoding = "http://"+s.HTTP, encoding
		checkQueue(t, config.QueueConfig.Get())
		return factory, config
	}
}

func overGRPC(t *testing.T, s *server.Server) (exporter.Factory, component.Config) {
	factory := otlpexporter.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpexporter.Config)
	config.ClientConfig.Endpoint, config.ClientConfig.TLS.Insecure = s.OTLPGRPC, true
	checkQueue(t, config.QueueConfig.Get())
	return factory, config
}

// checkQueue: without consumers side by side nothing would overtake.
func checkQueue(t *testing.T, queue *exporterhelper.QueueBatchConfig) {
	t.Helper()
	if queue == nil || queue.NumConsumers != 10 || queue.QueueSize < 1000 {
		t.Fatalf("the default queue is %+v; want 10 consumers and room for 1,000 batches", queue)
	}
}

// collectorsExporter is one of the Collector's exporters for OTLP.
type collectorsExporter struct {
	*testing.T
	exporter.Metrics
}

func startCollectorsExporter(t *testing.T, factory exporter.Factory, config component.Config) collectorsExporter {
	t.Helper()
	e, err := factory.CreateMetrics(t.Context(), exporter.Settings{
		ID: component.NewID(factory.Type()),
		TelemetrySettings: component.TelemetrySettings{
			Logger:         zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)),
			TracerProvider: nooptrace.NewTracerProvider(), MeterProvider: noopmetric.NewMeterProvider(),
			Resource: pcommon.NewResource(),
		},
	}, config)
	must(t, err)
	must(t, e.Start(t.Context(), noExtensions{}))
	return collectorsExporter{t, e}
}

func (c collectorsExporter) consume(batch pmetric.Metrics) {
	c.Helper()
	must(c, c.ConsumeMetrics(c.Context(), batch))
}

// noExtensions is a Collector without extensions.
type noExtensions struct{}

func (noExtensions) GetExtensions() map[component.ID]component.Component { return nil }

// newCollectorBatches returns a function that makes batches, each dated a millisecond after the one
// before: a gauge, a histogram, a running total and a delta.
func newCollectorBatches() func(i int) pmetric.Metrics {
	begin := time.Now().Add(-2 * time.Second)
	return func(i int) pmetric.Metrics {
		start, at := pcommon.NewTimestampFromTime(begin), pcommon.NewTimestampFromTime(begin.Add(time.Duration(i)*time.Millisecond))
		batch := pmetric.NewMetrics()
		all := batch.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
		metric := func(name string) pmetric.Metric {
			m := all.AppendEmpty()
			m.SetName(name)
			return m
		}
		sum := func(name string, temporality pmetric.AggregationTemporality, value int) {
			s := metric(name).SetEmptySum()
			s.SetIsMonotonic(true)
			s.SetAggregationTemporality(temporality)
			point := s.DataPoints().AppendEmpty()
			point.SetStartTimestamp(start)
			point.SetTimestamp(at)
			point.SetIntValue(int64(value))
		}
		sum("requests", pmetric.AggregationTemporalityCumulative, 1000+7*i)
		sum("jobs", pmetric.AggregationTemporalityDelta, 2)

		depth := metric("depth").SetEmptyGauge().DataPoints().AppendEmpty()
		depth.SetTimestamp(at)
		depth.SetIntValue(int64(i))

		took := metric("took").SetEmptyHistogram()
		took.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		buckets := took.DataPoints().AppendEmpty()
		buckets.SetStartTimestamp(start)
		buckets.SetTimestamp(at)
		buckets.SetCount(uint64(5 + 3*i))
		buckets.SetSum(float64(i))
		buckets.ExplicitBounds().FromRaw([]float64{1})
		buckets.BucketCounts().FromRaw([]uint64{5 + uint64(i), 2 * uint64(i)})
		return batch
	}
}
