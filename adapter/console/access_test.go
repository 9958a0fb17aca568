package console

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

// fakeAccess knows the token "jane", who may see the namespace shop, "root", who may see all, and
// "away", about which nobody can be asked.
type fakeAccess struct{ revoked atomic.Bool }

func (f *fakeAccess) Who(_ context.Context, _ netip.Prefix, token string) (*metric.Principal, error) {
	switch token {
	case "jane", "root":
		return &metric.Principal{User: token}, nil
	case "away":
		return nil, errors.Join(ErrUnavailable, errors.New("the API server cannot be asked"))
	}
	return nil, errors.New("the token is invalid")
}

func (f *fakeAccess) May(_ context.Context, who *metric.Principal, r metric.Right) (bool, error) {
	return !f.revoked.Load() && r.Verb == metric.Get && (who.User == "root" || r.Namespace == "shop"), nil
}

// guarded is a console that isn't on loopback, without its listener.
func guarded(access Access) *Server {
	s := &Server{parts: Parts{Source: shop(), Access: access, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Health: func() Health { return Health{} },
		Facts: nil, Try: func(_ []byte, _ string, sees func(string) bool) []Outcome {
			return []Outcome{{Line: fmt.Sprintf("sees shop %v, billing %v, all %v", sees("shop"), sees("billing"), sees(""))}}
		}}, streams: fair.NewRoom[netip.Prefix](maxStreams), ended: make(chan struct{})}
	s.history = newHistory(s.parts.Source, nil)
	return s
}

func TestRights(t *testing.T) {
	handler := guarded(&fakeAccess{})
	routes := handler.guard(handler.routes())
	for _, c := range []struct {
		token, path string
		want        int
	}{
		{"", "/metrics", 401}, {"wrong", "/metrics", 401}, {"away", "/metrics", 503},
		{"root", "/metrics", 200}, {"root", "/health", 200}, {"root", "/try?sender=shop/web", 200},
		{"jane", "/metrics", 403}, {"jane", "/metrics?namespace=shop", 200}, {"jane", "/metrics?namespace=billing", 403},
		{"jane", "/metric?namespace=billing&name=queue_depth", 403}, {"jane", "/metric?namespace=shop&name=queue_depth", 200},
		{"", "/overview", 401}, {"jane", "/overview", 403}, {"jane", "/live/overview", 403}, {"jane", "/overview?namespace=shop", 200}, {"root", "/overview", 200},
		{"jane", "/health", 403}, {"jane", "/refused?namespace=shop", 200}, {"jane", "/refused", 403}, {"jane", "/try?sender=shop/web", 200}, {"jane", "/try", 403},
		{"jane", "/live/metrics", 403}, {"", "/live/metrics?namespace=shop", 403},
		{"jane", "/metrics?namespace=billing&namespace=shop", 403}, // the first one counts, for rights and content
	} {
		for name, header := range map[string]string{
			"bearer": "Bearer " + c.token,
			"basic":  "Basic " + base64.StdEncoding.EncodeToString([]byte("anyone:"+c.token)),
		} {
			req, _ := http.NewRequest(http.MethodGet, "http://console.example"+c.path, nil)
			if c.token != "" {
				req.Header.Set("Authorization", header)
			}
			got := newRecorder()
			routes.ServeHTTP(got, req)
			if got.status != c.want {
				t.Errorf("%s with %q by %s: %d, want %d", c.path, c.token, name, got.status, c.want)
			}
			if c.want != 200 && strings.Contains(got.text.String(), "12.5") {
				t.Errorf("%s with %q shows values", c.path, c.token)
			}
			if c.want == 401 && !strings.Contains(got.header.Get("WWW-Authenticate"), "Basic") && !strings.HasPrefix(c.path, "/live") {
				t.Errorf("%s: a browser isn't asked for a token", c.path)
			}
		}
	}
}

// A trial says nothing of namespaces that the client may not see.
func TestTrialsKnowTheClientsRights(t *testing.T) {
	routes := guarded(&fakeAccess{}).routes()
	for token, want := range map[string]string{"jane": "sees shop true, billing false, all false", "root": "sees shop true, billing true, all true",
		"": "needs a token"} {
		req, _ := http.NewRequest(http.MethodGet, "http://console.example/try?sender=shop/web&line=a:1|c", nil)
		if req.Header.Set("Authorization", "Bearer "+token); token == "" {
			req.Header.Del("Authorization")
		}
		got := newRecorder()
		routes.ServeHTTP(got, req)
		if !strings.Contains(got.text.String(), want) {
			t.Errorf("%q: without %q: %s", token, want, got.text.String())
		}
	}
}

// A stream whose rights end is told so within half a minute, and gets nothing more.
func TestRightsThatEndEndTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := &fakeAccess{}
		s := guarded(access)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://console.example/live/metrics?namespace=shop", nil)
		req.Header.Set("Authorization", "Bearer jane")
		got, done := newRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			s.routes().ServeHTTP(got, req)
		}()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("the stream ended while the right was there:", got.text.String())
		default:
		}
		access.revoked.Store(true)
		began := time.Now()
		<-done
		if took := time.Since(began); took > recheck {
			t.Errorf("the stream went on for %v", took)
		}
		if text := got.text.String(); !strings.Contains(text, "event: content") || !strings.Contains(text, "event: end\ndata: samples.sluice.dev is forbidden") {
			t.Errorf("the stream: %.2000s", text)
		}
	})
}

func TestAddresses(t *testing.T) {
	for address, wants := range map[string][2]bool{ // valid in a cluster, standalone
		"": {true, true}, "127.0.0.1:9096": {true, true}, "[::1]:9096": {true, true}, "localhost:9096": {true, true},
		":9096": {true, false}, "0.0.0.0:9096": {true, false}, "10.0.0.1:9096": {true, false}, "9096": {false, false},
	} {
		for i, want := range wants {
			if err := (Config{Address: address, Standalone: i == 1}).Validate(); (err == nil) != want {
				t.Errorf("%q, standalone %v: %v", address, i == 1, err)
			}
		}
	}
	if _, err := New(Config{Address: ":0"}, Parts{}); err == nil {
		t.Error("a console for all without a cluster")
	}
}

// A stream says which values are new, and ends with the server.
func TestStream(t *testing.T) {
	s := running(t, shop())
	resp, err := http.Get("http://" + s.Addr().String() + "/live/metric?namespace=shop&name=queue_depth")
	must(t, err)
	defer resp.Body.Close()
	plots := 0
	for lines := bufio.NewScanner(resp.Body); plots < 2 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), `data: {"id":"series-`) {
			plots++
			if n := strings.Count(lines.Text(), ","); (n > span) != (plots == 1) {
				t.Errorf("message %d has %d values", plots, n)
			}
		}
	}
	if plots < 2 {
		t.Error("the stream has no plots")
	}
}

// An address has no more streams than its share, and leaves some to others.
func TestTooManyStreams(t *testing.T) {
	s := running(t, shop())
	follow := func(from string) int {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it ends after the first content
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr().String()+"/live/health", nil)
		req.RemoteAddr = from
		got := newRecorder()
		s.guard(s.routes()).ServeHTTP(got, req)
		return got.status
	}
	one, other := "10.0.0.1:1", "10.0.0.2:1"
	for s.streams.Take(connlimit.Prefix(one), 1) {
		if s.streams.Held() > maxStreams {
			t.Fatal("an address has no bound")
		}
	}
	before := s.streams.Held()
	if status := follow(one); status != http.StatusServiceUnavailable {
		t.Errorf("one stream too many: %d", status)
	}
	if status := follow(other); status != http.StatusOK {
		t.Errorf("a stream of another address: %d", status)
	}
	if n := s.streams.Held(); n != before || n != maxStreams*3/4 {
		t.Errorf("%d streams are counted, before %d", n, before)
	}
}

// countingAccess notes how many streams there are when a token is checked.
type countingAccess struct {
	fakeAccess
	server  *Server
	streams int64
}

func (a *countingAccess) Who(ctx context.Context, from netip.Prefix, token string) (*metric.Principal, error) {
	a.streams = max(a.streams, int64(a.server.streams.Held()))
	return a.fakeAccess.Who(ctx, from, token)
}

// A request takes a stream once its token is known to be valid, however long the check takes.
func TestStrangersTakeNoStream(t *testing.T) {
	access := &countingAccess{streams: -1}
	access.server = guarded(access)
	req, _ := http.NewRequest(http.MethodGet, "http://console.example/live/metrics?namespace=shop", nil)
	req.Header.Set("Authorization", "Bearer wrong")
	got := newRecorder()
	access.server.guard(access.server.routes()).ServeHTTP(got, req)
	if got.status != http.StatusForbidden || access.streams != 0 {
		t.Errorf("the answer is %d, and %d streams were taken while the token was checked", got.status, access.streams)
	}
}

// recorder is a ResponseWriter that can flush, for streams.
type recorder struct {
	header http.Header
	status int
	text   strings.Builder
}

func newRecorder() *recorder { return &recorder{header: http.Header{}, status: http.StatusOK} }

func (r *recorder) Header() http.Header              { return r.header }
func (r *recorder) WriteHeader(status int)           { r.status = status }
func (r *recorder) Write(p []byte) (int, error)      { return r.text.Write(p) }
func (r *recorder) FlushError() error                { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
