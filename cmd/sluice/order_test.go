package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"golang.org/x/sys/unix"
)

// A gauge that a client sends to a socket, and then sets by HTTP, keeps the later value.
func TestAPushFollowsWhatSocketsHold(t *testing.T) {
	t.Parallel()
	sockets := t.TempDir()
	p := started(t, t.TempDir(), "--statsd-unixgram", filepath.Join(sockets, "d"), "--statsd-unix", filepath.Join(sockets, "s"))
	pushes := map[string]func(name string) (method, path, body, contentType string){
		"/v1": func(name string) (_, _, _, _ string) { return "PUT", "/v1/external/" + name, "-1", "text/plain" },
		"/v1/statsd": func(name string) (_, _, _, _ string) {
			return "POST", "/v1/statsd", name + ":1|g\n" + name + ":-2|g", "text/plain"
		},
		"OTLP": func(name string) (_, _, _, _ string) {
			return "POST", "/v1/metrics", fmt.Sprintf(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":%q,"gauge":{"dataPoints":[`+
				`{"asInt":"-1"}]}}]}]}]}`, name), "application/json"
		},
	}
	for i, address := range p.statsd.Addrs() { // the sockets are being read
		conn, err := net.Dial(address.Network(), address.String())
		must(t, err)
		defer conn.Close()
		name := fmt.Sprint("first", i)
		if _, err := fmt.Fprintf(conn, "%s:1|g\n", name); err != nil {
			t.Fatal(err)
		}
		for status := 0; status != 200; {
			status, _ = spokenAs(t, p, "GET", "/v1/external/"+name, "")
		}
	}
	for i, address := range p.statsd.Addrs() {
		for _, isNew := range []bool{false, true} { // connections
			for protocol, push := range pushes {
				t.Run(fmt.Sprintf("%s, new %v, %s", address.Network(), isNew, protocol), func(t *testing.T) {
					name := strings.NewReplacer("/", "_").Replace(fmt.Sprintf("g%d%v%s", i, isNew, protocol))
					var conn net.Conn
					old := 0
					for n := range 100 {
						if conn == nil || isNew {
							var err error
							if conn, err = net.Dial(address.Network(), address.String()); err != nil {
								t.Fatal(err)
							}
							defer conn.Close()
						}
						if _, err := fmt.Fprintf(conn, "%s:%d|g\n", name, n+10); err != nil {
							t.Fatal(err)
						}
						awaitDelivered(t, conn)
						method, path, body, contentType := push(name)
						if status, answer := spokenAs(t, p, method, path, body, "Content-Type", contentType); status != 200 {
							t.Fatal(status, answer)
						}
						time.Sleep(time.Millisecond)
						if _, answer := spokenAs(t, p, "GET", "/v1/external/"+name, ""); !strings.Contains(answer, `"value":-1,`) {
							old++
						}
					}
					if old > 0 {
						t.Errorf("the older value stood %d times of 100", old)
					}
				})
			}
		}
	}
}

// awaitDelivered waits until the server's kernel has what was sent: even on loopback, it may be
// delivered after the call. To a Unix socket it is delivered by the call.
func awaitDelivered(t *testing.T, conn net.Conn) {
	if _, isUnix := conn.(*net.UnixConn); isUnix {
		return
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	must(t, err)
	for unsent := 1; unsent != 0; {
		must(t, raw.Control(func(fd uintptr) { unsent, _ = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }))
	}
}

// An OpenTelemetry Collector exports with ten consumers by default, so its batches overtake each
// other. Totals and counts are exact, and the newest value of a gauge stands.
func TestBatchesInAnyOrder(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir(), "--windows", "10s,1m,1h")
	const batches, consumers = 1000, 10
	begin := time.Now().Add(-2 * time.Second)
	send := func(i int) {
		if status, answer := spokenWith(t, p, "/v1/metrics", exported(t, i, begin), "application/x-protobuf"); status != 200 {
			t.Errorf("batch %d: %d %q", i, status, answer)
		}
	}
	send(0) // the baseline of the histogram
	queue := make(chan int)
	var sending sync.WaitGroup
	for range consumers {
		sending.Go(func() {
			for i := range queue {
				send(i)
			}
		})
	}
	for at := 0; at < batches; at += consumers { // a batch is overtaken by as many as there are consumers
		for _, n := range rand.Perm(consumers) {
			queue <- 1 + at + n
		}
	}
	close(queue)
	sending.Wait()
	for path, want := range map[string]int{
		"requests:total": 1000 + 7*batches, "requests:count:1h": 7 * (batches - 1), "depth": batches, "took:count:1h": 3 * batches,
	} {
		if _, answer := spokenAs(t, p, "GET", "/v1/external/"+path, ""); !strings.Contains(answer, fmt.Sprintf(`"value":%d,`, want)) {
			t.Errorf("%s: %s, want %d", path, answer, want)
		}
	}
}

// exported is a batch, dated a millisecond after the one before. Its counter begins with the second.
func exported(t *testing.T, i int, begin time.Time) string {
	start, at := pcommon.NewTimestampFromTime(begin), pcommon.NewTimestampFromTime(begin.Add(time.Duration(i)*time.Millisecond))
	export := pmetric.NewMetrics()
	all := export.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()

	gauge := all.AppendEmpty()
	gauge.SetName("depth")
	value := gauge.SetEmptyGauge().DataPoints().AppendEmpty()
	value.SetTimestamp(at)
	value.SetIntValue(int64(i))

	timer := all.AppendEmpty()
	timer.SetName("took")
	histogram := timer.SetEmptyHistogram()
	histogram.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	buckets := histogram.DataPoints().AppendEmpty()
	buckets.SetStartTimestamp(start)
	buckets.SetTimestamp(at)
	buckets.SetCount(uint64(5 + 3*i))
	buckets.SetSum(float64(i))
	buckets.ExplicitBounds().FromRaw([]float64{1})
	buckets.BucketCounts().FromRaw([]uint64{5 + uint64(i), 2 * uint64(i)})

	if i > 0 {
		counter := all.AppendEmpty()
		counter.SetName("requests")
		sum := counter.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		total := sum.DataPoints().AppendEmpty()
		total.SetStartTimestamp(start)
		total.SetTimestamp(at)
		total.SetIntValue(int64(1000 + 7*i))
	}
	body, err := new(pmetric.ProtoMarshaler).MarshalMetrics(export)
	must(t, err)
	return string(body)
}
