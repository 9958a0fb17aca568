package push

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/receiver/identity"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/push/native"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	seriesPerWrite = 1000
	writeRounds    = 3
)

// A request of remote write over loopback, to the real table with the real identities: counters and
// gauges with eight labels. One operation is one sample. The client, in the same process, writes
// prepared requests; its system calls are in cpu-ns/sample.
func BenchmarkRemoteWrite(b *testing.B) {
	for _, series := range []int{10_000, 200_000} {
		for version, request := range map[string]func(from, round int) []byte{"1.0": writeRequest1, "2.0": writeRequest2} {
			b.Run(fmt.Sprintf("%s/%d", version, series), func(b *testing.B) {
				var requests [][]byte
				for i := range series / seriesPerWrite * writeRounds {
					requests = append(requests, request(i*seriesPerWrite%series, i*seriesPerWrite/series))
				}
				benchmarkWrites(b, series, requests)
			})
		}
	}
}

func benchmarkWrites(b *testing.B, series int, requests [][]byte) {
	s, table := serveTable(b)
	go func() { _ = table.Run(b.Context()) }()
	c, err := net.Dial("tcp", s.Addr().String())
	must(b, err)
	defer c.Close()
	answers := bufio.NewReader(c)
	write := func(request []byte) {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		readNoContent(b, answers)
	}
	warm := 2 * series / seriesPerWrite
	for _, r := range requests[:warm] {
		write(r)
	}
	b.ReportAllocs()
	b.ResetTimer()
	began, written := processTime(), 0
	for i := 0; written < b.N; i++ {
		write(requests[i%len(requests)])
		written += seriesPerWrite
	}
	b.StopTimer()
	b.ReportMetric(float64(processTime()-began)/float64(written), "cpu-ns/sample")
	if want := uint64(written + warm*seriesPerWrite); s.Account().Applied() != want || table.Series() != series {
		b.Fatalf("applied %d to %d series: want %d", s.Account().Applied(), table.Series(), want)
	}
}

// serveTable serves pushes to a real table with the real identities, until the test ends. The table
// doesn't run.
// readerOf reads a table.
func readerOf(table *aggregate.Table) native.Reader {
	return answer.New(answer.Parts{Merged: aggregate.NewMerged(table), Rules: &rule.Current{}})
}

func serveTable(t testing.TB, windows ...time.Duration) (*Server, *aggregate.Table) {
	log := slog.New(slog.DiscardHandler)
	config := aggregate.DefaultConfig()
	if len(windows) > 0 {
		config.Windows = windows
	}
	table := aggregate.New(config, identity.New(identity.DefaultConfig(), cluster{}, nil).Describe, log)
	cfg := DefaultConfig()
	cfg.Address = "127.0.0.1:0"
	s, err := New(cfg, Parts{
		NewApplier: func() Applier { return table.NewWriter() }, Reader: readerOf(table), Resources: cluster{},
		Ledger: ledger.New(), Logger: log,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s, table
}

func readNoContent(b *testing.B, answers *bufio.Reader) {
	for first := true; ; first = false {
		line, err := answers.ReadSlice('\n')
		switch {
		case err != nil:
			b.Fatal(err)
		case first && string(line) != "HTTP/1.1 204 No Content\r\n":
			b.Fatalf("%s", line)
		case len(line) == 2:
			return
		}
	}
}

// processTime is the CPU time of the process, user and system.
func processTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// writtenLabels are the labels of one series, sorted, keys and values in turn. Even series are
// counters.
func writtenLabels(i int) []string {
	name := fmt.Sprintf("http_requests_%02d_total", i%40/2)
	if i%2 == 1 {
		name = fmt.Sprintf("process_memory_bytes_%02d", i%40/2)
	}
	return []string{
		"__name__", name,
		"code", fmt.Sprint(200 + i/40%5),
		"container", "web",
		"endpoint", "http-metrics",
		"instance", fmt.Sprintf("10.8.%d.%d:8080", i/200/250, i/200%250),
		"job", "monitoring/web",
		"namespace", "shop",
		"pod", fmt.Sprintf("web-6d4cf56db6-%05d", i/200),
		"service", "web-frontend",
	}
}

// writtenSample is a sample of a series: a total that grows by whole numbers, or a gauge.
func writtenSample(i, round int) []byte {
	v := float64(1000*i + 7*round)
	if i%2 == 1 {
		v = float64(i)*0.25 + float64(round)
	}
	m := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(v))
	return protowire.AppendVarint(protowire.AppendTag(m, 2, protowire.VarintType), uint64(time.Now().UnixMilli()))
}

// writeRequest1 is a request of 1.0 with a sample of each of some series.
func writeRequest1(from, round int) []byte {
	var body []byte
	for i := from; i < from+seriesPerWrite; i++ {
		var series []byte
		for pair := range slices.Chunk(writtenLabels(i), 2) {
			series = appendField(series, 1, appendField(appendField(nil, 1, []byte(pair[0])), 2, []byte(pair[1])))
		}
		body = appendField(body, 1, appendField(series, 2, writtenSample(i, round)))
	}
	return writeHTTP("prometheus.WriteRequest", body)
}

// writeRequest2 is the same in 2.0.
func writeRequest2(from, round int) []byte {
	symbols, numbers := []string{""}, map[string]uint64{"": 0}
	var all []byte
	for i := from; i < from+seriesPerWrite; i++ {
		var refs []byte
		for _, text := range writtenLabels(i) {
			if _, there := numbers[text]; !there {
				numbers[text] = uint64(len(symbols))
				symbols = append(symbols, text)
			}
			refs = protowire.AppendVarint(refs, numbers[text])
		}
		kind := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(1+i%2))
		all = appendField(all, 5, appendField(appendField(appendField(nil, 1, refs), 2, writtenSample(i, round)), 5, kind))
	}
	var body []byte
	for _, text := range symbols {
		body = appendField(body, 4, []byte(text))
	}
	return writeHTTP("io.prometheus.write.v2.Request", append(body, all...))
}

func appendField(message []byte, number protowire.Number, piece []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(message, number, protowire.BytesType), piece)
}

func writeHTTP(proto string, body []byte) []byte {
	body = s2.EncodeSnappy(nil, body)
	head := fmt.Sprintf("POST /api/v1/write HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: snappy\r\n"+
		"Content-Type: application/x-protobuf;proto=%s\r\nContent-Length: %d\r\n\r\n", proto, len(body))
	return append([]byte(head), body...)
}
