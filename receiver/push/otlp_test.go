package push

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/otlpgrpc"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
)

var otlpEncodings = []otlp.Encoding{otlp.Protobuf, otlp.JSON}

// gauges is an export of gauges of 1.
func gauges(names ...string) pmetric.Metrics {
	all := pmetric.NewMetrics()
	metrics := all.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for _, name := range names {
		m := metrics.AppendEmpty()
		m.SetName(name)
		m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(1)
	}
	return all
}

// manyNames are those of an export that takes more than what is free of a share.
func manyNames() (names []string) {
	for i := range 500 {
		names = append(names, fmt.Sprint("g", i))
	}
	return names
}

func encodeOTLP(t *testing.T, all pmetric.Metrics, e otlp.Encoding) (body []byte) {
	t.Helper()
	var err error
	if e == otlp.JSON {
		body, err = (&pmetric.JSONMarshaler{}).MarshalMetrics(all)
	} else {
		body, err = (&pmetric.ProtoMarshaler{}).MarshalMetrics(all)
	}
	must(t, err)
	return body
}

// otlpAnswer is what an export is answered with, whatever its encoding.
type otlpAnswer struct {
	status, code int
	rejected     int64
	message      string
	retry        string
}

// export sends a body, and holds the answer to what the protocol asks of all.
func (h *harness) export(body []byte, e otlp.Encoding, headers ...string) otlpAnswer {
	h.Helper()
	req, err := http.NewRequest("POST", h.url+"/v1/metrics", bytes.NewReader(body))
	must(h, err)
	req.Header.Set("Content-Type", e.ContentType())
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := h.client.Do(req)
	must(h, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(h, err)
	if want := strings.Split(req.Header.Get("Content-Type"), ";")[0]; res.Header.Get("Content-Type") != want && res.StatusCode != 415 {
		h.Errorf("the answer to %s is %s", want, res.Header.Get("Content-Type"))
	}
	if (res.StatusCode == 401) != (res.Header.Get("WWW-Authenticate") != "") {
		h.Errorf("%d with WWW-Authenticate %q", res.StatusCode, res.Header.Get("WWW-Authenticate"))
	}
	a := otlpAnswer{status: res.StatusCode, retry: res.Header.Get("Retry-After")}
	if res.StatusCode == 200 {
		response := pmetricotlp.NewExportResponse()
		if e == otlp.JSON {
			err = response.UnmarshalJSON(text)
		} else {
			err = response.UnmarshalProto(text)
		}
		a.rejected, a.message = response.PartialSuccess().RejectedDataPoints(), response.PartialSuccess().ErrorMessage()
	} else if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		_, err = fmt.Sscanf(string(text), `{"code":%d,"message":%q}`, &a.code, &a.message)
	} else {
		a.code, a.message = readStatus(h.T, text)
	}
	if err != nil {
		h.Errorf("%d %q: %v", res.StatusCode, text, err)
	}
	return a
}

// readStatus reads a google.rpc.Status.
func readStatus(t *testing.T, b []byte) (code int, message string) {
	t.Helper()
	for len(b) > 0 {
		n, wire, size := protowire.ConsumeTag(b)
		b = b[max(0, size):]
		switch {
		case n == 1 && wire == protowire.VarintType:
			v, size := protowire.ConsumeVarint(b)
			code, b = int(v), b[size:]
		case n == 2 && wire == protowire.BytesType:
			v, size := protowire.ConsumeString(b)
			message, b = v, b[size:]
		default:
			t.Fatalf("field %d of type %d in a status", n, wire)
		}
	}
	return code, message
}

func TestOTLP(t *testing.T) {
	h := start(t)
	for _, e := range otlpEncodings {
		for _, coding := range []string{"", "gzip", "zstd"} {
			name := "http.server.active" + e.ContentType()[12:] + coding
			body := compressed(t, coding, string(encodeOTLP(t, gauges(name, name+".b"), e)))
			a := h.export([]byte(body), e, "Content-Encoding", coding)
			if a != (otlpAnswer{status: 200}) || h.table.get(metric.Object{}, name) == nil || h.table.get(metric.Object{}, name+".b") == nil {
				t.Errorf("%s: %+v", name, a)
			}
		}
		empty := []byte(nil)
		if e == otlp.JSON {
			empty = []byte("{}")
		}
		if a := h.export(empty, e); a != (otlpAnswer{status: 200}) {
			t.Errorf("nothing in %s: %+v", e.ContentType(), a)
		}
		if a := h.export(encodeOTLP(t, gauges("typed"), e), e, "Content-Type", e.ContentType()+"; charset=utf-8"); a.status != 200 {
			t.Errorf("a parameter of the type: %+v", a)
		}
	}
}

// Exporters send again what is answered with 503. What is applied, and only not confirmed, must not come again.
func TestOTLPSync(t *testing.T) {
	g := gateway{start(t)}
	body := string(encodeOTLP(t, gauges("x"), otlp.JSON))
	g.wants(200, "", "POST", "/v1/metrics?sync=true", body, "Content-Type", "application/json")
	g.disk.err = http.ErrAbortHandler
	g.wants(500, `"code":13,"message":"it was applied and is served, but it is not on disk`, "POST", "/v1/metrics?sync=true", body, "Content-Type", "application/json")
}

// A gauge that is NaN, or that the client says has no value, is there no longer.
func TestOTLPVanishes(t *testing.T) {
	h := start(t)
	all := gauges("g")
	h.export(encodeOTLP(t, all, otlp.Protobuf), otlp.Protobuf)
	if h.table.get(metric.Object{}, "g") == nil {
		t.Fatal("it is not there")
	}
	p := all.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Gauge().DataPoints().At(0)
	p.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	if a := h.export(encodeOTLP(t, all, otlp.Protobuf), otlp.Protobuf); a != (otlpAnswer{status: 200}) {
		t.Errorf("%+v", a)
	}
	if h.table.get(metric.Object{}, "g") != nil {
		t.Error("it is still there")
	}
}

// Rejected points are reported with status 200, and pending points count as accepted.
func TestOTLPPartialSuccess(t *testing.T) {
	for _, e := range otlpEncodings {
		h, _ := startTrusting(t, 1)
		h.table.refuse["foreign"], h.table.refuse["early"], h.table.refuse["ignored"] = metric.Identity, metric.Pending, metric.Ignored
		a := h.export(encodeOTLP(t, gauges("good", "bad%", "foreign", "foreign", "early", "ignored"), e), e)
		if a.status != 200 || a.rejected != 3 {
			t.Errorf("%+v, want 3 rejected", a)
		}
		for _, want := range []string{"3 of 6 data points were rejected; ", `"bad%" cannot be queried`, "; explained: foreign from 127.0.0.1"} {
			if !strings.Contains(a.message, want) || strings.Count(a.message, "explained") != 1 {
				t.Errorf("%q, want %q", a.message, want)
			}
		}
		if n := h.rejected(metric.Identity); n != 2 {
			t.Errorf("the ledger has %d of identity, want 2", n)
		}
		if h.rejected(metric.BadName) != 1 || h.rejected(metric.Ignored) != 1 || h.server.Account().Applied() != 1 {
			t.Error("the ledger has other counts than the answer")
		}
		a = h.export(encodeOTLP(t, gauges("early", "ignored"), e), e)
		if a != (otlpAnswer{status: 200}) {
			t.Errorf("held and ignored: %+v", a)
		}
		a = h.export(encodeOTLP(t, gauges("good", "foreign"), e), e) // the good one stays applied
		if want := (otlpAnswer{status: 200, rejected: 1, message: "1 of 2 data points were rejected; explained: foreign from 127.0.0.1"}); a != want {
			t.Errorf("good and foreign: %+v, want %+v", a, want)
		}
	}
}

// If all points are rejected for the sender's rights, the status says so.
func TestOTLPRefusedWhole(t *testing.T) {
	for _, e := range otlpEncodings {
		h, _ := startTrusting(t, 0)
		h.table.refuse["foreign"], h.table.refuse["early"], h.table.refuse["full"] = metric.Identity, metric.Pending, metric.OverLimit
		for names, want := range map[string]otlpAnswer{
			"foreign foreign": {status: 403, code: 7, message: "2 of 2 data points were rejected; explained: foreign from 127.0.0.1"},
			"early early":     {status: 503, code: 14, retry: "1", message: "2 of 2 data points were rejected; it cannot be decided yet, and no more can be held: explained: early from 127.0.0.1"},
			"full":            {status: 200, rejected: 1, message: `1 of 1 data points were rejected; "full" would be a new series, and the series limit is reached: --max-series 7`},
			"early foreign":   {status: 403, code: 7, message: "2 of 2 data points were rejected; it cannot be decided yet, and no more can be held: explained: early from 127.0.0.1; explained: foreign from 127.0.0.1"},
		} {
			if a := h.export(encodeOTLP(t, gauges(strings.Fields(names)...), e), e); a != want {
				t.Errorf("%s:\n got %+v\nwant %+v", names, a, want)
			}
		}
	}
}

// oneSender is who has every address.
type oneSender struct{ sender *metric.Sender }

func (o oneSender) Sender(netip.Addr) *metric.Sender { return o.sender }

// The instance is a label where the sender does not tell instances apart.
func TestOTLPInstances(t *testing.T) {
	for name, c := range map[string]struct {
		sender *metric.Sender
		want   bool
	}{
		"a pod":                 {&metric.Sender{Key: 1, Known: true, Pod: &metric.Pod{Name: "web-1"}}, false},
		"nobody that is known":  {&metric.Sender{Key: 1}, false}, // its samples are held, and a pod's later
		"a node":                {&metric.Sender{Key: 1, Known: true}, true},
		"nobody asks who sends": {nil, true},
	} {
		h := start(t, func(_ *Config, p *Parts) {
			if c.sender != nil {
				p.Senders, p.Trust = oneSender{c.sender}, trusting{}
			}
		})
		all := gauges("g")
		attributes := all.ResourceMetrics().At(0).Resource().Attributes()
		attributes.PutStr("service.name", "cart")
		attributes.PutStr("service.instance.id", "i")
		h.export(encodeOTLP(t, all, otlp.Protobuf), otlp.Protobuf)
		labels := []metric.Label{{Key: "service.name", Value: "cart"}}
		if c.want {
			labels = append(labels, metric.Label{Key: "service.instance.id", Value: "i"})
		}
		if h.table.get(metric.Object{}, "g", labels...) == nil {
			t.Errorf("%s: no series with %v", name, labels)
		}
	}
}

func TestOTLPFaults(t *testing.T) {
	h := start(t, func(c *Config, _ *Parts) { c.MaxBodyBytes, c.MaxBufferedBytes = 1<<20, 3<<20 })
	for _, e := range otlpEncodings {
		deep := []byte(strings.Repeat(`{"x":`, 1000))
		heavy := []byte(`{"resourceMetrics":[` + strings.Repeat("{},", 20_000) + `{}]}`)
		if e == otlp.Protobuf {
			deep = nil
			for range 200 {
				deep = protowire.AppendBytes([]byte{0x2a}, protowire.AppendBytes([]byte{0x0a}, deep))
			}
			deep = protowire.AppendBytes([]byte{0x0a}, protowire.AppendBytes([]byte{0x0a}, protowire.AppendBytes([]byte{0x0a}, protowire.AppendBytes([]byte{0x12}, deep))))
			heavy = bytes.Repeat([]byte{0x0a, 0}, 100_000)
		}
		for name, c := range map[string]struct {
			body    []byte
			headers []string
			status  int
			code    int
			says    string
		}{
			"what it is not": {[]byte("\xff{"), nil, 400, 3, ""},
			"deep":           {deep, nil, 400, 3, "nested too deep"},
			"heavy":          {heavy, nil, 413, 3, "send it in parts"},
			"large":          {make([]byte, 1<<20+1), nil, 413, 3, "send it in parts"},
			"another type":   {nil, []string{"Content-Type", "text/plain"}, 415, 3, `"text/plain" is not supported`},
			"no type":        {nil, []string{"Content-Type", ""}, 415, 3, "is not supported"},
			"another coding": {[]byte("x"), []string{"Content-Encoding", "br"}, 415, 3, "must be one of gzip"},
			"not what it is": {[]byte("x"), []string{"Content-Encoding", "gzip"}, 400, 3, "not what Content-Encoding says"},
		} {
			if a := h.export(c.body, e, c.headers...); a.status != c.status || a.code != c.code || !strings.Contains(a.message, c.says) {
				t.Errorf("%s in %s: %+v, want %d %d %q", name, e.ContentType(), a, c.status, c.code, c.says)
			}
		}
	}
	_ = h.server.Reserve(3 << 20)
	if a := h.export(encodeOTLP(t, gauges(manyNames()...), otlp.Protobuf), otlp.Protobuf); a.status != 503 || a.code != 14 || a.retry != "1" {
		t.Errorf("busy: %+v", a)
	}
	_ = h.server.Reserve(-3 << 20)
	if res, text := h.send("GET", "/v1/metrics", nil); res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

// Decoded exports of one address leave room for those of others.
func TestOTLPSharesMemory(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const budget = 4 << 20
		h := start(t, inMemory, func(c *Config, _ *Parts) { c.MaxBodyBytes, c.MaxBufferedBytes = 1<<20, budget })
		other := *h
		other.client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return h.memory.dialFrom(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1})
		}}}
		defer other.client.CloseIdleConnections()
		one, empty := encodeOTLP(t, gauges("g"), otlp.Protobuf), []byte{0x0a, 0}
		own, err := otlp.DecodedSize(one, otlp.Protobuf)
		must(t, err)
		each, err := otlp.DecodedSize(empty, otlp.Protobuf)
		must(t, err)
		export := func(h *harness, size int64) (status int) {
			return h.export(append(bytes.Repeat(empty, int((size-own)/each)), one...), otlp.Protobuf).status
		}
		if status := export(h, budget); status != 413 {
			t.Errorf("all of the budget: %d", status)
		}
		h.table.slow = make(chan struct{})
		answers := make(chan int, 3)
		begin := func(h *harness, size int64) {
			go func() { answers <- export(h, size) }()
			synctest.Wait()
		}
		begin(h, budget/4*3)
		begin(h, budget/8)
		if n := h.table.waiting.Load(); n != 1 || len(answers) != 1 || <-answers != 503 {
			t.Errorf("%d exports of one address are at work", n)
		}
		begin(&other, budget/8)
		if n := h.table.waiting.Load(); n != 2 {
			t.Errorf("beside one of another address, %d exports are at work, want 2", n)
		}
		close(h.table.slow)
		if first, second := <-answers, <-answers; first != 200 || second != 200 {
			t.Errorf("%d, %d", first, second)
		}
	})
}

// podsOfNamespaces are the pods of the addresses 127.0.<namespace>.<pod>.
type podsOfNamespaces struct{}

func (podsOfNamespaces) Sender(a netip.Addr) *metric.Sender {
	ip := a.Unmap().As4()
	return &metric.Sender{Key: uint64(ip[2])<<8 | uint64(ip[3]), Address: a, Known: true, Pod: &metric.Pod{
		Namespace: fmt.Sprint("n", ip[2]), Name: fmt.Sprint("p", ip[3]), UID: a.String()}}
}

// Exports of one namespace, of however many of its pods, leave memory to those of others, at each port.
func TestExportsOfANamespaceLeaveRoom(t *testing.T) {
	const left = 4 << 20
	h := start(t, overGRPC, func(c *Config, p *Parts) {
		c.MaxBufferedBytes = otlpgrpc.MaxBuffered
		p.Senders, p.Trust = podsOfNamespaces{}, trusting{}
	})
	_ = h.server.Reserve(otlpgrpc.MaxBuffered - left)
	defer h.server.Reserve(left - otlpgrpc.MaxBuffered)
	h.table.slow = make(chan struct{})
	answers := make(chan error, 20)
	atWork := func(export func() error) bool { // it waits for the table, or is refused
		before := h.table.waiting.Load()
		go func() { answers <- export() }()
		waitFor(t, func() bool { return h.table.waiting.Load() > before || len(answers) > 0 })
		return len(answers) == 0 || <-answers == nil
	}
	one, empty := encodeOTLP(t, gauges(manyNames()...), otlp.Protobuf), []byte{0x0a, 0}
	each, err := otlp.DecodedSize(empty, otlp.Protobuf)
	must(t, err)
	own, err := otlp.DecodedSize(one, otlp.Protobuf)
	must(t, err)
	by := map[bool]int{}
	for pod := range 8 {
		size := max((otlpgrpc.MaxBuffered-h.server.Reserved())/8*5-own, 0)
		by[atWork(h.exportHTTP(fmt.Sprint("127.0.1.", pod+1), append(bytes.Repeat(empty, int(size/each)), one...)))]++
	}
	if by[true] == 0 || by[false] == 0 {
		t.Errorf("of eight exports of a namespace, %d are at work", by[true])
	}
	for door, export := range map[string]func() error{
		"HTTP": h.exportHTTP("127.0.2.1", one), "gRPC": h.exportGRPC("127.0.3.1", gauges(manyNames()...)),
	} {
		is := atWork(export)
		if by[is]++; !is {
			t.Errorf("%s: those of one namespace keep out one of another", door)
		}
	}
	close(h.table.slow)
	for range by[true] {
		must(t, <-answers)
	}
}

// dialFrom dials from one of the addresses of this machine.
func dialFrom(ip string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext(ctx, "tcp", address)
	}
}

func (h *harness) exportHTTP(from string, body []byte) func() error {
	other, dial := *h, dialFrom(from)
	other.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, h.server.Addr().String()) }}}
	return func() error {
		if a := other.export(body, otlp.Protobuf); a.status != http.StatusOK {
			return fmt.Errorf("%+v", a)
		}
		return nil
	}
}

func (h *harness) exportGRPC(from string, all pmetric.Metrics) func() error {
	client := h.grpcClient(insecure.NewCredentials(), grpc.WithContextDialer(dialFrom(from)))
	return func() error {
		_, err := client.Export(h.Context(), pmetricotlp.NewExportRequestFromMetrics(all))
		return err
	}
}

// Of an export with more faults than its answer shows, the list of rejections has words for each
// kind of fault.
func TestListedFaultsOfAnExportHaveWords(t *testing.T) {
	all := gauges(make([]string, httpserver.MaxErrors+1)...)
	metrics := all.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
	for i := range httpserver.MaxErrors {
		metrics.At(i).Gauge().DataPoints().At(0).Attributes().PutStr("", "no key")
	}
	negative := metrics.At(httpserver.MaxErrors).SetEmptySum()
	negative.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	negative.SetIsMonotonic(true)
	negative.DataPoints().AppendEmpty().SetIntValue(-1)
	list := record.NewRejections(nil)
	h := start(t, func(_ *Config, p *Parts) { p.Rejections = list })
	if a := h.export(encodeOTLP(t, all, otlp.Protobuf), otlp.Protobuf); a.rejected != httpserver.MaxErrors+1 {
		t.Errorf("answered %+v", a)
	}
	words := map[string]string{}
	for _, r := range list.All() {
		words[r.Reason] = r.Message
	}
	if !strings.Contains(words[metric.Malformed.String()], "no key") || !strings.Contains(words[metric.BadValue.String()], "negative") {
		t.Errorf("listed %q", words)
	}
}
