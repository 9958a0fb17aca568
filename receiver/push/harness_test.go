package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// table is the smallest thing that honours Applier and Reader: a map under a mutex, without
// windows.
type table struct {
	began   time.Time
	mu      sync.Mutex
	series  map[key]*entry
	applied int
	refuse  map[string]metric.Reason // by metric name
	senders map[string]string        // who sent the last sample, by metric name

	fresh, closed atomic.Int64  // Appliers
	slow          chan struct{} // if not nil, Apply waits for it
	waiting       atomic.Int64  // in Apply

	persist    func(context.Context) error // of totals on a page; nil: they are on disk
	persisting error
}

type key struct {
	object metric.Object
	name   string
	labels metric.Labels
}

type entry struct {
	kind    metric.Kind
	whole   int64
	rest    float64
	members map[string]bool
	last    metric.Sample // without the borrowed parts
}

func newTable() *table {
	return &table{began: time.Now(), series: map[key]*entry{}, refuse: map[string]metric.Reason{}, senders: map[string]string{}}
}

// writer is an Applier that minds the order of the calls.
type writer struct {
	knowsNone
	*table
	parked, closed bool
	dirty          bool // applied since the last Quiesce
}

// knowsNone is a cache of lines that knows none.
type knowsNone struct{}

func (knowsNone) LookupLines([]metric.Line)                 {}
func (knowsNone) KnownKind(int) (metric.Kind, bool)         { return metric.NoKind, false }
func (knowsNone) ApplyKnownSample(int, *metric.Sample) bool { return false }

func (t *table) newApplier() Applier {
	t.fresh.Add(1)
	return &writer{table: t}
}

func (w *writer) Apply(s *metric.Sample) metric.Reason {
	if w.parked || w.closed {
		panic("Apply on an Applier that is parked or closed")
	}
	if w.slow != nil {
		w.waiting.Add(1)
		<-w.slow
	}
	w.dirty = true
	return w.apply(s)
}

func (w *writer) Quiesce() { w.dirty = false }

func (w *writer) Offline() {
	if w.parked || w.dirty {
		panic("Offline on an Applier that is offline, or within a batch")
	}
	w.parked = true
}

func (w *writer) Online() {
	if !w.parked {
		panic("Online on an Applier that is not offline")
	}
	w.parked = false
}

func (w *writer) Close() {
	w.closed = true
	w.table.closed.Add(1)
}

func (t *table) apply(s *metric.Sample) metric.Reason {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Sender != nil {
		t.senders[string(s.Name)] = s.Sender.Address.String()
	}
	if r := t.refuse[string(s.Name)]; r != metric.Applied {
		return r
	}
	if r := metric.CheckName(string(s.Name)); r != metric.Applied {
		return r
	}
	var o metric.Object
	if s.Object != nil {
		o = *s.Object
	}
	var labels []metric.Label
	for _, l := range s.AppendLabels(nil) {
		labels = append(labels, metric.Label{Key: strings.Clone(l.Key), Value: strings.Clone(l.Value)})
	}
	k := key{o, string(s.Name), metric.NewLabels(labels)}
	if s.Op == metric.MarkStale {
		delete(t.series, k)
		t.applied++
		return metric.Applied
	}
	e := t.series[k]
	for other, oe := range t.series {
		if other.object == o && other.name == k.name && oe.kind != s.Kind {
			return metric.KindConflict
		}
	}
	if e == nil {
		e = &entry{kind: s.Kind, members: map[string]bool{}}
		t.series[k] = e
	}
	e.change(s)
	t.applied++
	return metric.Applied
}

func (e *entry) change(s *metric.Sample) {
	switch s.Op {
	case metric.Accumulate:
		if s.Histogram != nil {
			e.whole, e.rest = int64(s.Histogram.Count), 0
			break
		}
		e.whole, e.rest = s.Whole, s.Fraction
	case metric.Merge:
		e.whole += int64(s.Histogram.Count)
	case metric.Assign:
		e.whole, e.rest = s.Whole, s.Fraction
	case metric.Insert:
		e.members[string(s.Member)] = true
		e.whole = int64(len(e.members))
	case metric.Add, metric.Shift, metric.Observe:
		e.whole, e.rest = e.whole+s.Whole, e.rest+s.Fraction
	default:
		panic("a sample without an op")
	}
	e.last = metric.Sample{Kind: s.Kind, Op: s.Op, Whole: s.Whole, Fraction: s.Fraction, Rate: s.Rate, TTL: s.TTL, Dated: s.Dated, Late: s.Late}
}

var tableTime = time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC)

func (t *table) matching(q metric.Query) []key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []key
	for k := range t.series {
		if k.name != q.Expression.Name || k.object.Resource != q.Resource || k.object.Namespace != q.Namespace {
			continue
		}
		if q.Resource != "" && q.Object != metric.AllObjects && k.object.Name != q.Object {
			continue
		}
		if q.MatchLabels == nil || q.MatchLabels(k.labels) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return keys
}

func (t *table) Objects(q metric.Query) ([]metric.Point, error)  { return t.read(q) }
func (t *table) External(q metric.Query) ([]metric.Point, error) { return t.read(q) }

func (t *table) Computes(metric.Query) bool { return false }

func (t *table) read(q metric.Query) ([]metric.Point, error) {
	if q.Expression.Name == "unready" {
		return nil, metric.NotReadyf("the pods of Services are not known yet")
	}
	if q.Expression.Window == 13*time.Second {
		return nil, metric.InvalidQueryf("no window of 13s is kept: 10s, 1m are")
	}
	var points []metric.Point
	for _, k := range t.matching(q) {
		e := t.series[k]
		p := metric.Point{Object: k.object, Labels: k.labels, Value: metric.Int(e.whole), Time: tableTime, Window: q.Expression.Window}
		if k.object.Resource == "services" {
			p.Pods = metric.PodCount{With: 2, Of: 3} // as if it were rolled up
		}
		if e.rest != 0 {
			p.Value = metric.Float(float64(e.whole) + e.rest)
		}
		points = append(points, p)
	}
	if len(points) == 0 {
		return nil, metric.NotFoundf("no series of %q", q.Expression.Name)
	}
	return points, nil
}

func (t *table) Delete(q metric.Query) int {
	keys := t.matching(q)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		delete(t.series, k)
	}
	return len(keys)
}

// Remove implements group.Table.
func (t *table) Remove(o metric.Object, name string, sets []metric.Labels) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, set := range sets {
		delete(t.series, key{o, name, set})
	}
}

// EndUngrouped implements group.Table.
func (*table) EndUngrouped(func(func(metric.Object, string, []metric.Labels))) int { return 0 }

// Hide implements group.Table.
func (t *table) Hide(metric.Object, string, []metric.Labels) {}

// Lifetime implements group.Table.
func (t *table) Lifetime() time.Duration { return time.Since(t.began) }

// get is one series; nil if there is none.
func (t *table) get(o metric.Object, name string, labels ...metric.Label) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.series[key{o, name, metric.NewLabels(labels)}]
}

func (t *table) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.applied
}

// cluster knows a few resources.
type cluster struct{}

func (cluster) Canonical(resource string) (string, bool, error) {
	switch resource {
	case "pods", "services":
		return resource, true, nil
	case "ingresses", "ingresses.networking.k8s.io":
		return "ingresses.networking.k8s.io", true, nil
	case "nodes", "namespaces":
		return resource, false, nil
	case "soon":
		return "", false, metric.NotReadyf("no resource is known yet, %q neither", resource)
	case "events":
		return "", false, fmt.Errorf("resource \"events\" is ambiguous: say events or events.events.k8s.io")
	}
	return "", false, metric.NotFoundf("no resource %q is known", resource)
}

// disk is a Syncer.
type disk struct {
	calls atomic.Int64
	err   error
	wait  chan struct{}
}

func (d *disk) Sync(ctx context.Context) error {
	d.calls.Add(1)
	if d.wait == nil {
		return d.err
	}
	select {
	case <-d.wait:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// others are Replicas.
type others struct {
	calls     atomic.Int64
	deletions atomic.Int64 // calls of SyncDeletion
	err       error
	heard     func() error // HearDocuments; may be nil
}

func (o *others) HearDocuments(context.Context) error {
	if o.heard == nil {
		return nil
	}
	return o.heard()
}

func (*others) Name() string { return "sluice-1" }

func (o *others) SyncAll(context.Context) error {
	o.calls.Add(1)
	return o.err
}

func (o *others) SyncDeletion(ctx context.Context) error {
	o.deletions.Add(1)
	return o.SyncAll(ctx)
}

type harness struct {
	*testing.T
	server *Server
	table  *table
	disk   *disk
	groups *group.Groups
	url    string
	client *http.Client
	memory *memory // nil: the server listens on a socket
	logs   *logtest.Buffer
	stop   func() // ends Run and waits for it

	replica *harness // of startReplicas; nil: there is none
	asked   int      // requests to both replicas
	isOther bool     // the other replica, whose applied samples the first counts
}

// start runs a server on loopback for the test's time. Of its limits in time, only those hold that a
// test sets, unless it listens inMemory.
func start(t *testing.T, set ...func(*Config, *Parts)) *harness {
	t.Helper()
	h := &harness{T: t, table: newTable(), disk: &disk{}, logs: &logtest.Buffer{}}
	cfg := DefaultConfig()
	cfg.Address, cfg.AllowedHosts = "127.0.0.1:0", []string{"a"} // the Host of requests that are written by hand
	parts := Parts{
		NewApplier: h.table.newApplier, Reader: h.table, Series: h.table, Resources: cluster{}, Syncer: h.disk, Full: "--max-series 7",
		Groups: group.New(group.DefaultConfig(), h.table),
		Ledger: ledger.New(), Logger: slog.New(slog.NewTextHandler(h.logs, nil)),
	}
	for _, f := range set {
		f(&cfg, &parts)
	}
	if h.memory, _ = parts.Listener.(*memory); h.memory == nil {
		cfg.SyncTimeout, cfg.PendingTimeout = time.Hour, time.Hour
		if cfg.ShutdownTimeout == DefaultConfig().ShutdownTimeout {
			cfg.ShutdownTimeout = time.Hour
		}
		ln, err := net.Listen("tcp", cfg.Address)
		must(t, err)
		parts.Listener = patient{ln}
	}
	h.groups = parts.Groups
	s, err := New(cfg, parts)
	must(t, err)
	h.server, h.url = s, "http://"+s.Addr().String()
	h.client = &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return h.connect() },
	}}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		h.client.CloseIdleConnections()
		for tries := 0; tries < 50 && s.Connections() > 0; tries++ { // fasthttp looks for them every 100 ms only
			time.Sleep(time.Millisecond)
		}
		h.stop()
		h.law()
		if h.memory != nil {
			time.Sleep(time.Minute) // fasthttp's last goroutine ends
		}
	})
	return h
}

// connect opens a connection to the server.
func (h *harness) connect() (net.Conn, error) {
	if h.memory != nil {
		return h.memory.dial()
	}
	return net.Dial("tcp", h.server.Addr().String())
}

// startReplicas runs two replicas that have one table, which stands for the merged answers.
// Requests of a gateway go to both in turn.
func startReplicas(t *testing.T, set ...func(*Config, *Parts)) *harness {
	t.Helper()
	first := start(t, append(set, func(_ *Config, p *Parts) { p.Groups.Replicate("sluice-0", slog.New(slog.DiscardHandler)) })...)
	first.replica = start(t, append(set, func(_ *Config, p *Parts) {
		p.NewApplier, p.Reader, p.Syncer = first.table.newApplier, first.table, first.disk
		p.Groups = group.New(group.DefaultConfig(), first.table)
		p.Groups.Replicate("sluice-1", slog.New(slog.DiscardHandler))
	})...)
	first.replica.isOther = true
	return first
}

// next is the replica whose turn it is.
func (h *harness) next() *harness {
	if h.asked++; h.replica != nil && h.asked%2 == 0 {
		return h.replica
	}
	return h
}

// exchange hands the changes of each replica's groups to the other.
func (h *harness) exchange() {
	h.Helper()
	if h.replica == nil {
		return
	}
	one, other := h.groups.TakeShared(), h.replica.groups.TakeShared()
	if err := errors.Join(h.groups.Apply(other), h.replica.groups.Apply(one)); err != nil {
		h.Error(err)
	}
}

// sweep ends groups at both replicas.
func (h *harness) sweep(now time.Duration) {
	h.groups.Sweep(now)
	if h.replica != nil {
		h.replica.groups.Sweep(now)
	}
}

// law: what the ledger says was applied is what the table applied, and nothing is held after the
// end.
func (h *harness) law() {
	h.Helper()
	if h.table == nil { // a test has a table of its own
		return
	}
	got, want := h.server.Account().Applied(), uint64(h.table.count())
	if h.replica != nil {
		got += h.replica.server.Account().Applied()
	}
	if got != want && !h.isOther {
		h.Errorf("the ledger has %d applied, the table %d", got, want)
	}
	if n := h.server.Reserved(); n != 0 {
		h.Errorf("%d bytes of the budget were not given back", n)
	}
	if f, c := h.table.fresh.Load(), h.table.closed.Load(); f != c && !h.isOther {
		h.Errorf("%d Appliers were made, %d closed", f, c)
	}
}

func (h *harness) do(method, path, body string) (int, string) {
	h.Helper()
	res, text := h.send(method, path, strings.NewReader(body))
	return res.StatusCode, text
}

func (h *harness) send(method, path string, body io.Reader, headers ...string) (*http.Response, string) {
	h.Helper()
	req, err := http.NewRequest(method, h.url+path, body)
	must(h, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := h.client.Do(req)
	if err != nil {
		h.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(h, err)
	h.checkAnswer(res, string(text))
	return res, string(text)
}

// checkAnswer holds every answer to what all have in common.
func (h *harness) checkAnswer(res *http.Response, text string) {
	h.Helper()
	if got := res.Header.Get("Content-Type"); got != "application/json" {
		h.Errorf("Content-Type is %q", got)
	}
	if got := res.Header.Get("Server"); got != "sluice" {
		h.Errorf("Server is %q", got)
	}
	if res.Request != nil && res.Request.Method == http.MethodHead {
		return
	}
	if !strings.HasSuffix(text, "}\n") {
		h.Errorf("the answer does not end in a newline: %q", text)
	}
	if hasError := strings.Contains(text, `"error":{`); hasError != (res.StatusCode != 200 && res.StatusCode != 202) {
		h.Errorf("status %d with %s", res.StatusCode, text)
	}
}

// socket is a raw connection.
type socket interface {
	net.Conn
	CloseWrite() error
}

// dial opens a raw connection.
func (h *harness) dial() socket {
	h.Helper()
	c, err := h.connect()
	must(h, err)
	h.Cleanup(func() { c.Close() })
	return c.(socket)
}

func write(t testing.TB, w io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) rejected(r metric.Reason) uint64 {
	n := h.server.Account().Rejected(r)
	if h.replica != nil {
		n += h.replica.server.Account().Rejected(r)
	}
	return n
}

// golden holds text against a file of testdata; with UPDATE_GOLDEN=1 it writes the file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if text != string(want) {
		t.Errorf("%s:\n got %s\nwant %s", name, text, want)
	}
}

// metric returns the value of one of the server's own metrics.
func (h *harness) metric(name string) float64 {
	h.Helper()
	registry := prometheus.NewRegistry()
	must(h, h.server.Register(registry))
	families, err := registry.Gather()
	must(h, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.Metric[0].GetCounter().GetValue()
		}
	}
	h.Fatalf("no metric %s", name)
	return 0
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
