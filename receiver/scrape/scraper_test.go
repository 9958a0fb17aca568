package scrape

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// world is a cluster of pods that are HTTP handlers, in virtual time.
type world struct {
	*Scraper
	t       *testing.T
	mu      sync.Mutex
	version uint64
	pods    []metric.AnnouncedPod
	holders map[netip.Addr]*metric.Pod
	pages   map[netip.AddrPort]http.Handler
	share   *rest
	nodes   map[string]string // by the names of pods
	applied []string          // "12s web a=1"
	reject  map[string]metric.Reason
	faults  []string
	dialed  []netip.AddrPort
	open    map[netip.AddrPort]int
	began   time.Time
	account *ledger.Account
	onDial  func()
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, version: 1, holders: map[netip.Addr]*metric.Pod{}, pages: map[netip.AddrPort]http.Handler{}, nodes: map[string]string{},
		reject: map[string]metric.Reason{}, open: map[netip.AddrPort]int{}, account: ledger.New().Open(Receiver)}
	w.Scraper = New(Parts{
		Pods: func(since uint64) ([]metric.AnnouncedPod, uint64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if since == w.version {
				return nil, since
			}
			return append([]metric.AnnouncedPod{}, w.pods...), w.version
		},
		Sender: func(a netip.Addr) *metric.Sender {
			w.mu.Lock()
			defer w.mu.Unlock()
			if pod := w.holders[a]; pod != nil {
				return &metric.Sender{Key: 1, Address: a, Pod: pod, Known: true}
			}
			return nil
		},
		NodeOf:  func(pod *metric.Pod) string { w.mu.Lock(); defer w.mu.Unlock(); return w.nodes[pod.Name] },
		Applier: w, Account: w.account,
		Explain: func(r metric.Reason, _ *metric.Sample) string { return "because of " + r.String() },
		Faulty:  func(pod *metric.Pod, fault string) { w.faults = append(w.faults, pod.Name+": "+fault) },
		Dial:    w.dial, Agent: "sluice/test", Logger: slog.New(slog.DiscardHandler),
	})
	return w
}

// run runs the scraper for a test.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.began = time.Now()
	go func() { defer close(done); _ = w.Scraper.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
}

// pod adds a pod with an endpoint; a nil handler: nobody listens.
func (w *world) pod(name, address string, page http.Handler, e metric.Endpoint) netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := &metric.Pod{Namespace: "shop", Name: name, UID: "uid-" + name}
	at := netip.MustParseAddr(address)
	if e.Path == "" {
		e.Path = "/metrics"
	}
	if e.Interval == 0 {
		e.Interval = 10 * time.Second
	}
	w.pods = append(w.pods, metric.AnnouncedPod{Pod: pod, Address: at, Announcement: &metric.Announcement{Endpoints: []metric.Endpoint{e}}})
	w.holders[at] = pod
	w.pages[netip.AddrPortFrom(at, e.Port)] = page
	w.version++
	return netip.AddrPortFrom(at, e.Port)
}

func (w *world) change(what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what()
	w.version++
}

// rest is the share of all pods, which this replica has or another one.
type rest struct {
	*world
	here bool
}

func (r *rest) Take(string)    {}
func (r *rest) Release(string) {}
func (r *rest) Of(share string) (mine, free bool, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return share == RestShare && r.here, share != RestShare, time.Time{}
}
func (r *rest) Changed() <-chan struct{} { return nil }
func (r *rest) Ready() bool              { return true }
func (r *rest) First() bool              { return true }

// oneConn is a listener with one connection.
type oneConn struct {
	conn chan net.Conn
	over chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}
func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// watched is a connection that says when it is closed.
type watched struct {
	net.Conn
	once   sync.Once
	closed func()
}

func (c *watched) Close() error { c.once.Do(c.closed); return c.Conn.Close() }

func (w *world) dial(_ context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	page, onDial := w.pages[to], w.onDial
	w.dialed = append(w.dialed, to)
	w.open[to]++
	if w.open[to] > 1 {
		w.t.Errorf("%d requests to %s at once", w.open[to], to)
	}
	w.mu.Unlock()
	closed := func() { w.mu.Lock(); defer w.mu.Unlock(); w.open[to]-- }
	if onDial != nil {
		onDial()
	}
	if page == nil {
		closed()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	near, far := net.Pipe()
	listener := oneConn{make(chan net.Conn, 1), make(chan struct{})}
	listener.conn <- far
	server := &http.Server{Handler: page, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = server.Serve(listener) }()
	return &watched{Conn: near, closed: func() { closed(); close(listener.over); _ = server.Close() }}, nil
}

func (w *world) Apply(s *metric.Sample) metric.Reason {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Sender.Pod.UID != s.Object.UID || s.Object.Resource != "pods" || s.TTL != max(15*time.Second, s.TTL) {
		w.t.Errorf("a sample of %+v, sent by %+v, that lives for %v", s.Object, s.Sender.Pod, s.TTL)
	}
	if r := w.reject[string(s.Name)]; r != metric.Applied {
		return r
	}
	w.applied = append(w.applied, fmt.Sprintf("%s %s=%v", s.Object.Name, s.Name, s.Float()))
	return metric.Applied
}
func (w *world) Quiesce() {}
func (w *world) Online()  {}
func (w *world) Offline() {}
func (w *world) Close()   {}

func (w *world) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.applied
	w.applied = nil
	return all
}

func text(page string) http.HandlerFunc {
	return func(to http.ResponseWriter, r *http.Request) {
		to.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(to, page)
	}
}

func zipped(page []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(page)
	_ = z.Close()
	return b.Bytes()
}

func sent(encoding string, page []byte) http.HandlerFunc {
	return func(to http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" || r.Header.Get("Authorization") != "" {
			panic("headers")
		}
		to.Header().Set("Content-Type", "text/plain")
		if encoding != "" {
			to.Header().Set("Content-Encoding", encoding)
		}
		_, _ = to.Write(page)
	}
}

var waiting = metric.Endpoint{Port: 8000, Names: []string{"vllm:num_requests_waiting"}}

func TestScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("web", "10.0.0.1", sent("", vllmPage(t)), waiting)
		w.pod("zip", "10.0.0.2", sent("gzip", zipped(vllmPage(t))), metric.Endpoint{Port: 9000, Path: "/m?x=1", Interval: time.Second, Names: []string{"vllm:kv_cache_usage_perc"}})
		w.run()
		time.Sleep(20*time.Second + time.Millisecond)
		synctest.Wait()
		number := map[string]int{}
		for _, sample := range w.took() {
			number[sample]++
		}
		if len(number) != 2 || number["web vllm:num_requests_waiting=12"] != 2 || number["zip vllm:kv_cache_usage_perc=0.8437"] != 20 {
			t.Errorf("%v", number)
		}
		for _, target := range w.Targets("shop") {
			if target.State != inspect.TargetUp || target.Error != "" || target.Samples != 1 || target.Bytes == 0 || target.Fault() != "" {
				t.Errorf("%+v", target)
			}
		}
		if len(w.Targets("other")) != 0 {
			t.Error("another namespace has targets")
		}
		if w.account.Applied() != 22 || w.account.Received() != 22 || w.account.Packets() != 22 {
			t.Errorf("%d applied of %d, %d pages", w.account.Applied(), w.account.Received(), w.account.Packets())
		}
	})
}

func TestFaults(t *testing.T) {
	big := bytes.Repeat([]byte("other{x=\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"} 1\n"), 40_000) // 2.2 MB
	page := func(h http.HandlerFunc) http.Handler { return h }
	for _, c := range []struct {
		name   string
		page   http.Handler
		result result
		fault  string
	}{
		{"nobody listens", nil, unreachable, "dial: connection refused"},
		{"hangs", page(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), timedOut, "no complete page within 9s"},
		{"drips", page(func(to http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(to, "vllm:num_requests_waiting 1\n"); err != nil {
					return
				}
				to.(http.Flusher).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		}), timedOut, "no complete page within 9s"},
		{"redirects", http.RedirectHandler("http://169.254.169.254/latest", http.StatusFound), badStatus, "302 Found; must be 200 OK"},
		{"is forbidden", http.NotFoundHandler(), badStatus, "404 Not Found"},
		{"sends 2 MiB", sent("", big), tooLarge, "the bytes of the page have more than 1 MiB"},
		{"sends a bomb", sent("gzip", zipped(bytes.Repeat(big, 3))), tooLarge, "the decompressed bytes of the page have more than 4 MiB"},
		{"sends no gzip", sent("gzip", []byte("vllm:num_requests_waiting 1\n")), unreadable, "no valid gzip"},
		{"sends half a gzip", sent("gzip", zipped(vllmPage(t))[:500]), unreachable, "unexpected EOF"},
		{"sends brotli", sent("br", nil), unreadable, `Content-Encoding "br"`},
		{"sends protobuf", page(func(to http.ResponseWriter, _ *http.Request) {
			to.Header().Set("Content-Type", "application/vnd.google.protobuf")
		}), unreadable, "Content-Type"},
		{"sends web pages", page(func(to http.ResponseWriter, _ *http.Request) {
			to.Header().Set("Content-Type", "text/html")
		}), unreadable, `Content-Type "text/html"`},
		{"has other metrics", text("a 1\nvllm:num_requests_waiting_total 5\n"), missing, "none of the named metrics"},
		{"has a bad line", text("a 1\nvllm:num_requests_waiting x\n"), unreadable, "are not valid"},
		{"repeats a series", text("vllm:num_requests_waiting 1\nvllm:num_requests_waiting 2\n"), unreadable, "are not valid"},
		{"is cut off", page(func(to http.ResponseWriter, _ *http.Request) {
			to.Header().Set("Content-Type", "text/plain")
			to.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(to, "vllm:num_requests_waiting 1\n")
		}), unreachable, "unexpected EOF"},
		{"sends long headers", page(func(to http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				to.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 50))
			}
		}), unreachable, "headers exceeded 4096 bytes"},
		{"speaks another protocol", page(func(to http.ResponseWriter, _ *http.Request) {
			conn, _, _ := to.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, "220 ready"+strings.Repeat(" ready", 200)+"\r\n")
			_ = conn.Close()
		}), unreachable, "malformed HTTP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				at := w.pod("web", "10.0.0.1", c.page, waiting)
				w.run()
				time.Sleep(25 * time.Second)
				synctest.Wait()
				all := w.Targets("")
				if len(all) != 1 || all[0].State != inspect.TargetFailing || all[0].Result != string(c.result) ||
					!strings.Contains(all[0].Error, c.fault) || !all[0].LastSuccess.IsZero() || !strings.Contains(all[0].Fault(), c.fault) {
					t.Errorf("%+v\nwant the result %s, the fault %s", all, c.result, c.fault)
				}
				if got := w.took(); len(got) > 0 {
					t.Errorf("applied %q", got)
				}
				if n := len(all[0].Error); n > maxFault+20 {
					t.Errorf("a fault of %d bytes", n)
				}
				// It is well again.
				w.mu.Lock()
				w.pages[at] = text("vllm:num_requests_waiting 3\n")
				w.mu.Unlock()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if all := w.Targets(""); all[0].State != inspect.TargetUp || all[0].Error != "" || len(w.took()) == 0 {
					t.Errorf("%+v afterwards", all)
				}
				for _, to := range w.dialed {
					if to != at {
						t.Errorf("dialed %s", to)
					}
				}
			})
		})
	}
}

// Only an address that the pod holds alone is dialed, before and after connecting and at the end.
func TestOnlyThePodsOwnAddress(t *testing.T) {
	other := &metric.Pod{Namespace: "shop", Name: "other", UID: "uid-other"}
	for _, address := range []string{"127.0.0.1", "::1", "169.254.1.1", "fe80::1", "0.0.0.0", "224.0.0.1", "255.255.255.255"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.pod("web", address, text("vllm:num_requests_waiting 1\n"), waiting)
			w.run()
			time.Sleep(25 * time.Second)
			if len(w.dialed) > 0 || w.Targets("")[0].Result != string(moved) {
				t.Errorf("%s: dialed %v; %+v", address, w.dialed, w.Targets(""))
			}
		})
	}
	at := netip.MustParseAddr("10.0.0.1")
	for name, change := range map[string]func(w *world){
		"from the beginning": func(w *world) { w.holders[at] = other },
		"a node's":           func(w *world) { w.holders[at] = nil },
		"at the last look": func(w *world) {
			sender, looks := w.parts.Sender, 0
			w.parts.Sender = func(a netip.Addr) *metric.Sender {
				if looks++; looks%3 == 0 {
					return &metric.Sender{Key: 1, Address: a, Known: true}
				}
				return sender(a)
			}
		},
		"while connecting": func(w *world) { w.onDial = func() { w.change(func() { w.holders[at] = other }) } },
		"while reading": func(w *world) {
			w.pages[netip.AddrPortFrom(at, 8000)] = http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
				w.change(func() { w.holders[at] = other })
				text("vllm:num_requests_waiting 1\n")(to, r)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.pod("web", "10.0.0.1", text("vllm:num_requests_waiting 1\n"), waiting)
				change(w)
				w.run()
				time.Sleep(25 * time.Second)
				synctest.Wait()
				if got := w.took(); len(got) > 0 || w.Targets("")[0].Result != string(moved) {
					t.Errorf("%q; %+v", got, w.Targets(""))
				}
			})
		})
	}
}

// A slow target is asked again only after its answer, and costs no other target a scrape.
func TestOneRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 50 {
			w.pod(fmt.Sprint("slow", i), fmt.Sprint("10.0.1.", i), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
				metric.Endpoint{Port: 1, Names: []string{"a"}, Interval: time.Second})
		}
		w.pod("web", "10.0.0.1", text("a 1\n"), metric.Endpoint{Port: 1, Names: []string{"a"}, Interval: time.Second})
		w.run()
		time.Sleep(30*time.Second + time.Millisecond)
		synctest.Wait()
		if n := len(w.took()); n != 30 {
			t.Errorf("%d samples in 30 s, want 30", n)
		}
	})
}

// The starts of many targets are spread over their interval.
func TestNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		at := map[int]int{}
		for i := range 500 {
			w.pod(fmt.Sprint("web", i), fmt.Sprintf("10.0.%d.%d", i/200, i%200), http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
				mu.Lock()
				at[int(time.Since(w.began)/time.Second)]++
				mu.Unlock()
				text("a 1\n")(to, r)
			}), metric.Endpoint{Port: 1, Names: []string{"a"}})
		}
		w.run()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for second := range 10 {
			if at[second] < 20 || at[second] > 100 {
				t.Errorf("%d of 500 scrapes in second %d of 10", at[second], second)
			}
		}
	})
}

func TestFollowsAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.share = &rest{world: w, here: true}
		w.Scraper.parts.Shares = w.share
		w.pod("web", "10.0.0.1", text("a 1\nb 2\n"), metric.Endpoint{Port: 1, Names: []string{"a"}, Interval: time.Second})
		w.pod("bad", "10.0.0.2", nil, metric.Endpoint{})
		w.change(func() { w.pods[1].Announcement = &metric.Announcement{Fault: "annotation x: no JSON"} })
		w.pod("early", "10.0.0.3", nil, metric.Endpoint{Port: 1, Names: []string{"a"}})
		w.change(func() { w.pods[2].Address = netip.Addr{} })
		w.run()
		time.Sleep(5 * time.Second)
		state := func() (all []string) {
			for _, target := range w.Targets("") {
				all = append(all, target.Pod+" "+target.State)
			}
			slices.Sort(all)
			return all
		}
		if got := state(); !slices.Equal(got, []string{"bad invalid", "early waiting", "web up"}) {
			t.Errorf("%q", got)
		}
		w.took()
		w.change(func() {
			w.pods[0].Announcement = &metric.Announcement{Endpoints: []metric.Endpoint{{Port: 1, Path: "/metrics", Names: []string{"b", "c"}, Interval: time.Second}}}
		})
		time.Sleep(5 * time.Second)
		if got := w.took(); len(got) < 3 || got[len(got)-1] != "web b=2" {
			t.Errorf("%q after a change", got)
		}
		for _, target := range w.Targets("") {
			if target.Pod == "web" && !slices.Equal(target.Missing, []string{"c"}) {
				t.Errorf("%+v: c is missing", target)
			}
		}
		w.change(func() { w.share.here = false }) // another replica scrapes
		time.Sleep(2 * time.Second)
		w.took()
		time.Sleep(5 * time.Second)
		if got := state(); len(w.took()) > 0 || !slices.Equal(got, []string{"bad invalid", "early waiting", "web elsewhere"}) {
			t.Errorf("%q while another replica scrapes", got)
		}
		w.change(func() { w.share.here, w.pods = true, w.pods[1:2] })
		time.Sleep(5 * time.Second)
		if got := state(); len(w.took()) > 0 || !slices.Equal(got, []string{"bad invalid"}) {
			t.Errorf("%q once the pod is gone", got)
		}
		if len(w.faults) != 1 || w.faults[0] != "bad: annotation x: no JSON" {
			t.Errorf("faults %q, want one", w.faults)
		}
	})
}

// A path may have a token. Neither lists nor the log show it, nor that of a line that is quoted.
func TestSecretsAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log bytes.Buffer
		w.parts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.pod("web", "10.0.0.1", text("a{password=hunter2} x\n"), metric.Endpoint{Port: 1, Path: "/m?token=hunter2", Names: []string{"a"}, Interval: time.Second})
		w.run()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		got := w.Targets("")[0]
		if shown := fmt.Sprint(got, log.String()); strings.Contains(shown, "hunter2") || got.Result != string(unreadable) || log.Len() == 0 {
			t.Error(shown)
		}
	})
}

func TestRejectedSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("web", "10.0.0.1", text("a 1\nb 2\n"), metric.Endpoint{Port: 1, Names: []string{"a", "b"}, Interval: time.Second})
		w.reject["b"] = metric.OverLimit
		w.run()
		time.Sleep(3 * time.Second)
		got := w.Targets("")[0]
		if got.State != inspect.TargetUp || got.Error != "1 of 2 samples were rejected: because of limit (b)" || got.Fault() != "" {
			t.Errorf("%+v", got)
		}
		w.mu.Lock()
		w.reject["a"] = metric.KindConflict
		w.mu.Unlock()
		time.Sleep(3 * time.Second)
		if got = w.Targets("")[0]; got.State != inspect.TargetFailing || got.Result != string(rejected) || !strings.HasPrefix(got.Error, "all 2 samples were rejected: because of kind_conflict (a)") {
			t.Errorf("%+v", got)
		}
		if w.account.Received() != w.account.Applied()+w.account.Rejected(metric.OverLimit)+w.account.Rejected(metric.KindConflict) {
			t.Error("a sample is counted otherwise than once")
		}
	})
}

// A second's rejected samples are sampled over all pages, and counted as all of them.
func TestAFloodOfRejectedSamplesIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages, samples = 5, 900
		w := newWorld(t)
		w.parts.Rejections = record.NewRejections(nil)
		worded := 0
		w.parts.Explain = func(metric.Reason, *metric.Sample) string { worded++; return "" }
		sender := &metric.Sender{Key: 1, Pod: &metric.Pod{Namespace: "shop", Name: "web"}}
		w.reject["one"] = metric.KindConflict
		for p := range pages {
			var page []byte
			for i := range samples {
				name := fmt.Sprintf("m%d_%d", p, i)
				w.reject[name] = metric.OverLimit
				page = fmt.Appendf(page, "%s 1\none{i=\"%d\"} 1\n", name, i)
			}
			if f := w.apply(&target{}, page, sender, time.Now()); f == nil || f.result != rejected {
				t.Fatal(f)
			}
		}
		counted := 0
		for _, r := range w.parts.Rejections.All() {
			if r.Metric == "one" {
				counted += int(r.Count)
			}
		}
		if counted > pages*samples || counted < (pages-2)*samples || worded > 1100 {
			t.Errorf("of %d rejected samples of a metric %d are counted; %d got words", pages*samples, counted, worded)
		}
	})
}

// A server scrapes the oldest 1,000 pods.
func TestSurplus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range MaxPods + 2 {
			w.pod(fmt.Sprint("web", i), fmt.Sprintf("10.0.%d.%d", i/200, i%200), nil, metric.Endpoint{Port: 1, Names: []string{"a"}, Interval: 5 * time.Minute})
			w.pods[i].Created = int64(10_000 - i)
		}
		w.run()
		time.Sleep(time.Second)
		surplus := []string{}
		for _, target := range w.Targets("") {
			if target.State == inspect.TargetSurplus {
				surplus = append(surplus, target.Pod)
			}
		}
		if slices.Sort(surplus); !slices.Equal(surplus, []string{"web0", "web1"}) {
			t.Errorf("%q are not scraped", surplus)
		}
	})
}
