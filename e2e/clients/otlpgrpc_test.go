package clients

import (
	"context"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// Every instrument of the SDK over gRPC, with the exporter's defaults and with others, has the values that it has over
// HTTP.
func TestOTLPGRPCEveryInstrument(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]otlpmetricgrpc.Option{
		"defaults": nil,
		"gzip":     {otlpmetricgrpc.WithCompressor("gzip")},
		"delta": {otlpmetricgrpc.WithTemporalitySelector(func(sdk.InstrumentKind) metricdata.Temporality {
			return metricdata.DeltaTemporality
		})},
		"SDK delta":  {otlpmetricgrpc.WithTemporalitySelector(sdk.DeltaTemporalitySelector)},
		"low memory": {otlpmetricgrpc.WithTemporalitySelector(sdk.LowMemoryTemporalitySelector)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.New(t)
			s.WithOTLP()
			s.Start()
			exporter, err := otlpmetricgrpc.New(t.Context(), append(options, otlpmetricgrpc.WithEndpointURL("http://"+s.OTLPGRPC))...)
			must(t, err)
			c := exportingOTLP(t, exporter, []attribute.KeyValue{attribute.String("service.name", "cart"), attribute.String("host.name", "h")})
			everyInstrument(t, c, s, name == "defaults" || name == "gzip")
			if got := s.Metrics()[`sluice_otlp_grpc_requests_total{code="OK"}`]; got < 2 {
				t.Errorf("%v calls are counted", got)
			}
		})
	}
}

// The environments that docs/otlp.md shows, over gRPC and over HTTP, are all that an SDK needs.
func TestOTLPByThePage(t *testing.T) {
	blocks := regexp.MustCompile(`(?m)(?:^    OTEL_\w+=.*\n)+`).FindAllString(page(t, "docs", "otlp.md"), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/otlp.md has %d environments; must have two", len(blocks))
	}
	for _, block := range blocks {
		s := server.New(t)
		s.WithOTLP()
		s.Start()
		block = strings.NewReplacer("sluice:4317", s.OTLPGRPC, "sluice:4318", s.OTLPHTTP).Replace(block)
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			t.Setenv(name, value)
		}
		var exporter sdk.Exporter
		var err error
		if strings.Contains(block, "PROTOCOL=grpc") {
			exporter, err = otlpmetricgrpc.New(t.Context())
		} else {
			exporter, err = otlpmetrichttp.New(t.Context())
		}
		must(t, err)
		provider := sdk.NewMeterProvider(sdk.WithReader(sdk.NewPeriodicReader(exporter)),
			sdk.WithResource(resource.Empty())) // not that of the environment of another test
		made(provider.Meter("e2e").Int64Counter("jobs")).Add(t.Context(), 3)
		must(t, provider.Shutdown(context.Background()))
		want(t, s, map[string]float64{"jobs:total": 3, "jobs:count": 3})
	}
}

// A partial success and a fault over gRPC reach the SDK's user in Sluice's words.
func TestOTLPGRPCFaults(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.WithOTLP()
	s.Start()
	exporter, err := otlpmetricgrpc.New(t.Context(), otlpmetricgrpc.WithEndpointURL("http://"+s.OTLPGRPC))
	must(t, err)
	c := exportingOTLP(t, exporter, nil)
	made(c.Float64Gauge("gauge")).Record(t.Context(), 1)
	made(c.Float64Gauge("status")).Record(t.Context(), 1)
	err = c.provider.ForceFlush(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"status" cannot be queried`) {
		t.Errorf("the SDK says %v", err)
	}
	want(t, s, map[string]float64{"gauge": 1})
}

// nodeScript exports each instrument once, and a batch that is rejected in part.
const nodeScript = `
const {MeterProvider, PeriodicExportingMetricReader, AggregationType} = require('@opentelemetry/sdk-metrics');
const {OTLPMetricExporter} = require('@opentelemetry/exporter-metrics-otlp-grpc');
const reader = new PeriodicExportingMetricReader({exporter: new OTLPMetricExporter({temporalityPreference: 0 /* delta */}),
  exportIntervalMillis: 3600000});
const provider = new MeterProvider({readers: [reader], views: [{instrumentName: 'exponential',
  aggregation: {type: AggregationType.EXPONENTIAL_HISTOGRAM}}]});
const meter = provider.getMeter('e2e');
(async () => {
  for (let i = 0; i < 2; i++) {
    meter.createCounter('requests').add(5);
    meter.createUpDownCounter('active').add(2);
    meter.createGauge('load').record(0.75);
    for (let v = 0; v < 100; v++) {
      meter.createHistogram('explicit').record(v);
      meter.createHistogram('exponential').record(v);
    }
    await provider.forceFlush();
  }
  await provider.shutdown();
})().catch(err => { console.error(err); process.exit(1); });
`

// Node's exporter, where node finds it (NODE_PATH): npm install @opentelemetry/exporter-metrics-otlp-grpc
// @opentelemetry/sdk-metrics.
func TestOTLPGRPCFromNode(t *testing.T) {
	t.Parallel()
	if err := exec.Command("node", "-e", "require.resolve('@opentelemetry/exporter-metrics-otlp-grpc')").Run(); err != nil {
		t.Skip("skipped: node has no @opentelemetry/exporter-metrics-otlp-grpc")
	}
	s := server.New(t)
	s.WithOTLP()
	s.Start()
	cmd := exec.Command("node", "-e", nodeScript)
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+s.OTLPGRPC)
	run(t, cmd)
	want(t, s, map[string]float64{"requests:total": 10, "active": 4, "load": 0.75, "explicit:count": 200, "exponential:count": 200})
	for _, name := range []string{"explicit:mean", "exponential:mean"} {
		if got := s.Sum(name); math.Abs(got-49.5) > 1e-6 {
			t.Errorf("%s is %v, want 49.5", name, got)
		}
	}
}
