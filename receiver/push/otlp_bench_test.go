package push

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// takesAll is an Applier that costs nothing.
type takesAll struct{ knowsNone }

func (takesAll) Apply(*metric.Sample) metric.Reason { return metric.Applied }
func (takesAll) Quiesce()                           {}
func (takesAll) Online()                            {}
func (takesAll) Offline()                           {}
func (takesAll) Close()                             {}

// consumers are those of the queue of a Collector's exporter, by default.
const consumers = 10

// BenchmarkOTLP compares an export over HTTP with the same over gRPC, without a table: one after the other, as an SDK
// does, and some at once, as a Collector does. The clients are in the same process: net/http's and grpc-go's, of which
// SDKs consist.
func BenchmarkOTLP(b *testing.B) {
	cfg := DefaultConfig()
	cfg.Address, cfg.OTLPGRPCAddress = "127.0.0.1:0", "127.0.0.1:0"
	server, err := New(cfg, Parts{NewApplier: func() Applier { return takesAll{} }, Resources: cluster{}, Ledger: ledger.New(),
		Groups: group.New(group.DefaultConfig(), newTable()), Logger: slog.New(slog.DiscardHandler), Pending: (*pending.Buffer)(nil)})
	must(b, err)
	go func() { _ = server.Run(b.Context()) }()
	conn, err := grpc.NewClient(server.grpc.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(b, err)
	defer conn.Close()
	caller := pmetricotlp.NewGRPCClient(conn)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: consumers}}
	defer client.CloseIdleConnections()
	for _, points := range []int{10, 100, 1000, 10_000} {
		all := gauges("requests")
		in := all.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Gauge().DataPoints()
		for i := range points - 1 {
			p := in.AppendEmpty()
			p.SetIntValue(int64(i))
			p.Attributes().PutStr("http.route", fmt.Sprintf("/carts/%d", i))
			p.Attributes().PutInt("http.response.status_code", 200)
		}
		request := pmetricotlp.NewExportRequestFromMetrics(all)
		body, err := request.MarshalProto()
		must(b, err)
		overHTTP := func(b *testing.B) {
			encoded, _ := request.MarshalProto()
			res, err := client.Post("http://"+server.Addr().String()+"/v1/metrics", "application/x-protobuf", bytes.NewReader(encoded))
			if err != nil || res.StatusCode != http.StatusOK {
				b.Error(res, err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		overGRPC := func(b *testing.B) {
			if _, err := caller.Export(b.Context(), request); err != nil {
				b.Error(err)
			}
		}
		for _, by := range []struct {
			name   string
			export func(*testing.B)
		}{{"http", overHTTP}, {"grpc", overGRPC}} {
			b.Run(fmt.Sprint(points, "/", by.name), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					by.export(b)
				}
			})
			b.Run(fmt.Sprint(points, "/", by.name, "/", consumers, " at once"), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.SetParallelism(max(consumers/runtime.GOMAXPROCS(0), 1))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						by.export(b)
					}
				})
			})
		}
	}
}
