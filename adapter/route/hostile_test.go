package route

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// What the caller gets, and what is counted, for every way in which a provider answers.
func TestAnswers(t *testing.T) {
	const jsonType = "application/json"
	status := func(message string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + message + `","code":500}`
	}
	items := func(item string) string {
		return `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[` + item + `]}`
	}
	for name, one := range map[string]struct {
		answer http.HandlerFunc
		code   int32
		reason metav1.StatusReason
		result result
		words  string
	}{
		"not found":         {answers(404, jsonType, status("no such metric")), 404, metav1.StatusReasonNotFound, notFound, "does not have it: no such metric"},
		"not found, a page": {answers(404, "text/plain", "404 page not found"), 404, metav1.StatusReasonNotFound, notFound, "404 page not found"},
		"bad request":       {answers(400, jsonType, status("bad selector")), 400, metav1.StatusReasonBadRequest, rejected, "rejects the question: bad selector"},
		"too many":          {answers(429, jsonType, status("later")), 429, metav1.StatusReasonTooManyRequests, rejected, "rejects the question: later"},
		"its error":         {answers(500, jsonType, status("scaler failed")), 502, metav1.StatusReasonServiceUnavailable, failed, "fails (500): scaler failed"},
		"token rejected":    {answers(401, jsonType, status("Unauthorized")), 503, metav1.StatusReasonServiceUnavailable, denied, "does not accept the token of Sluice's service account"},
		"right is missing":  {answers(403, jsonType, status("forbidden")), 503, metav1.StatusReasonServiceUnavailable, denied, "needs get and list in external.metrics.k8s.io: forbidden"},
		"a proxy's page":    {answers(502, "text/html", "<html>bad gateway</html>"), 502, metav1.StatusReasonServiceUnavailable, invalid, "answers with status 502: <html>bad"},
		"a loop":            {answers(508, jsonType, status("loop")), 503, metav1.StatusReasonServiceUnavailable, loop, "requests would go round"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/x", http.StatusFound)
		}, 502,
			metav1.StatusReasonServiceUnavailable, invalid, `url must be that of the API server itself: "https://evil.example/x"`},
		"a page":           {answers(200, "text/html", "<html>log in</html>"), 502, metav1.StatusReasonServiceUnavailable, invalid, `not application/json: "text/html": <html>`},
		"no type":          {answers(200, "", oneValue), 502, metav1.StatusReasonServiceUnavailable, invalid, "not application/json"},
		"garbage":          {answers(200, jsonType, "\xff\xfe\x00"), 502, metav1.StatusReasonServiceUnavailable, invalid, "3 bytes that are no text"},
		"nothing":          {answers(200, jsonType, ""), 502, metav1.StatusReasonServiceUnavailable, invalid, "no list of values"},
		"cut off":          {answers(200, jsonType, oneValue[:len(oneValue)-2]), 502, metav1.StatusReasonServiceUnavailable, invalid, "no list of values"},
		"two lists":        {answers(200, jsonType, oneValue+oneValue), 502, metav1.StatusReasonServiceUnavailable, invalid, "no list of values"},
		"another kind":     {answers(200, jsonType, strings.Replace(oneValue, "ExternalMetricValueList", "MetricValueList", 1)), 502, metav1.StatusReasonServiceUnavailable, invalid, `kind "MetricValueList"`},
		"another version":  {answers(200, jsonType, strings.Replace(oneValue, "v1beta1", "v2", 1)), 502, metav1.StatusReasonServiceUnavailable, invalid, "external.metrics.k8s.io/v2"},
		"a value of words": {answers(200, jsonType, items(`{"metricName":"a","value":"many"}`)), 502, metav1.StatusReasonServiceUnavailable, invalid, "no list of values"},
		"a time of words":  {answers(200, jsonType, items(`{"metricName":"a","timestamp":"now","value":"1"}`)), 502, metav1.StatusReasonServiceUnavailable, invalid, "no list of values"},
		"labels in a list": {answers(200, jsonType, items(`{"metricName":"a","metricLabels":["x"],"value":"1"}`)), 502, metav1.StatusReasonServiceUnavailable, invalid, "no list of values"},
		"items in an object": {answers(200, jsonType, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":{"a":1}}`), 502,
			metav1.StatusReasonServiceUnavailable, invalid, "no list of values"},
		"10 MB and a byte": {answers(200, jsonType, strings.Repeat(" ", maxAnswer+1)), 502, metav1.StatusReasonServiceUnavailable, invalid, "more than 10 MB"},
		"many empty values": {answers(200, jsonType, items(strings.Repeat("{},", maxAnswer/leastObject)+"{}")), 502,
			metav1.StatusReasonServiceUnavailable, invalid, "more than 10 MB"},
		"an endless one": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			for block := make([]byte, 1<<20); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, 502, metav1.StatusReasonServiceUnavailable, invalid, "more than 10 MB"},
		"an error of 10 MB": {answers(503, jsonType, strings.Repeat("a", 10<<20)), 502, metav1.StatusReasonServiceUnavailable, invalid, "answers with status 503: aaa"},
		"headers of 1 MB":   {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("a", 1<<20)) }, 503, metav1.StatusReasonServiceUnavailable, unreachable, "cannot be reached"},
		"it hangs up":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 503, metav1.StatusReasonServiceUnavailable, unreachable, "cannot be reached"},
		"it hangs up amid": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			_, _ = w.Write([]byte(oneValue[:50]))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 503, metav1.StatusReasonServiceUnavailable, unreachable, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t, one.answer)
			r := routerOf(t, patient(), s.spec())
			err := ask(r, t, "other:x")
			wantStatus(t, err, one.code, one.reason, `the external metric "other:x" is routed to the provider other, which `, one.words)
			if got := testutil.ToFloat64(r.metrics.requests.WithLabelValues("other", string(one.result))); got != 1 {
				t.Errorf("%v requests are counted as %s", got, one.result)
			}
			why, _ := r.providers[0].Fault()
			if whole := (&fault{result: one.result}).whole(); whole != (why != "") {
				t.Errorf("the provider's fault is %q", why)
			}
		})
	}
}

// All whose metrics a provider has see why it fails; what it said in an answer is the caller's, and the log's.
func TestFaultsQuoteNoAnswer(t *testing.T) {
	const of = "secret_of_bank"
	for name, answer := range map[string]http.HandlerFunc{
		"a status":     answers(403, "application/json", `{"kind":"Status","message":"cannot get `+of+`"}`),
		"a token":      answers(401, "application/json", `{"kind":"Status","message":"`+of+`"}`),
		"a page":       answers(502, "text/html", of),
		"a type":       answers(200, of, "{}"),
		"another page": answers(200, "text/html", of),
		"a kind":       answers(200, "application/json", `{"kind":"`+of+`"}`),
		"garbage":      answers(200, "application/json", of),
		"a value":      answers(200, "application/json", strings.Replace(oneValue, "1500m", of, 1)),
		"a redirect":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/"+of, http.StatusFound) },
		"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = conn.Write([]byte(of + "\r\n\r\n"))
			_ = conn.Close()
		},
	} {
		var log strings.Builder
		s := newStandIn(t, answer)
		r, err := New(patient(), []Spec{s.spec()}, &rest.Config{}, slog.New(slog.NewTextHandler(&log, nil)))
		must(t, err)
		p := r.providers[0]
		if err := ask(r, t, "other"); !strings.Contains(err.Error(), of) || !strings.Contains(log.String(), of) {
			t.Errorf("%s: the caller hears %v, and the log has %s", name, err, log.String())
		}
		if why, _ := p.Fault(); why == "" || strings.Contains(why, of) {
			t.Errorf("%s: all hear %q", name, why)
		}
		p.fault.Store(nil)
		p.look(t.Context())
		if why, _ := p.Fault(); why == "" || strings.Contains(why, of) {
			t.Errorf("%s of discovery: all hear %q", name, why)
		}
	}
}

func wantStatus(t *testing.T, err error, code int32, reason metav1.StatusReason, words ...string) {
	t.Helper()
	var failure *apierrors.StatusError
	if !errors.As(err, &failure) || failure.ErrStatus.Code != code || failure.ErrStatus.Reason != reason {
		t.Fatalf("%#v", err)
	}
	for _, part := range words {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v\nwant %q", err, part)
		}
	}
	if len(err.Error()) > 2000 {
		t.Errorf("the message has %d bytes", len(err.Error()))
	}
}

// A provider that gives no answer is given up, and holds its own requests up only.
func TestHanging(t *testing.T) {
	enough := make(chan struct{})
	entered := make(chan struct{}, 8)
	s := newStandIn(t, func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-enough:
		case <-r.Context().Done():
		}
	})
	defer close(enough)
	other := newStandIn(t, answers(200, "application/json", oneValue))
	cfg := patient()
	cfg.MaxInFlight = 16 // eight each
	r := routerOf(t, cfg, s.spec(), other.spec(func(s *Spec) { s.Name, s.Metrics = "quick", []string{"quick"} }))
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan error, 8)
	hang := func(share string) {
		go func() {
			_, _, err := r.providers[0].Ask(ctx, Question{Namespace: "shop", Name: "other", Share: share})
			hung <- err
		}()
		<-entered
	}
	for range 6 {
		hang("")
	}
	wantStatus(t, ask(r, t, "other"), 503, metav1.StatusReasonServiceUnavailable, "has 6 requests in flight, of which one reader has at most three times what is left")
	hang("another reader")
	must(t, ask(r, t, "quick"))
	cancel()
	for range 7 {
		wantStatus(t, <-hung, 503, metav1.StatusReasonServiceUnavailable, "the caller went away")
	}
	if why, _ := r.providers[0].Fault(); why != "" {
		t.Errorf("callers that go away are taken for a fault: %s", why)
	}
	cfg.Timeout = 50 * time.Millisecond
	r = routerOf(t, cfg, s.spec())
	wantStatus(t, ask(r, t, "other"), 503, metav1.StatusReasonServiceUnavailable, "gave no answer within 50ms")
}

// The request: path, selector, credentials and mark. Its values are the provider's.
func TestRequest(t *testing.T) {
	s := newStandIn(t, answers(200, "application/json", oneValue))
	r := routerOf(t, patient(), s.spec(), s.spec(func(s *Spec) { s.Name, s.Metrics, s.Impersonate = "own-rules", []string{"mine"}, true }))
	reader := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated", "team"}}
	q := Question{Namespace: "shop", Name: `other@shop:a\|b`, Selector: "queue in (eu,us),tier=gold", Reader: reader}
	list, _, err := find(t, r, "other").Ask(t.Context(), q)
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].Value.String() != "1500m" || list.Items[0].MetricLabels["queue"] != "mail" ||
		*list.Items[0].WindowSeconds != 60 || list.Items[0].Timestamp.Unix() != 1773489600 {
		t.Errorf("%+v", list)
	}
	if _, _, err := find(t, r, "mine").Ask(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	asked := s.asked()
	got := asked[0]
	if got.URL.Path != `/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/other@shop:a\|b` ||
		got.URL.Query().Get("labelSelector") != q.Selector || got.Header.Get("Authorization") != "Bearer sluices-token" ||
		got.Header.Get(ForwardedHeader) == "" || got.Header.Get("Accept") != "application/json" || got.Header.Get("Impersonate-User") != "" {
		t.Errorf("%s %v", got.URL, got.Header)
	}
	if as := asked[1].Header; as.Get("Impersonate-User") != reader.Name || strings.Join(as.Values("Impersonate-Group"), ",") != "team" {
		t.Errorf("impersonates %v", as)
	}
}

// The certificate is verified by the present content of the file, and for the host of the URL or serverName.
func TestTrust(t *testing.T) {
	s := newStandIn(t, answers(200, "application/json", oneValue))
	_, _, s.caFile = testauthority.New(t).Sign(t, t.TempDir(), testauthority.Leaf{}) // a stranger's
	r := routerOf(t, patient(), s.spec(), s.spec(func(s *Spec) { s.Name, s.Metrics, s.ServerName = "named", []string{"named"}, "wrong.example" }))
	wantStatus(t, ask(r, t, "other"), 503, metav1.StatusReasonServiceUnavailable, "cannot be reached", "x509")
	if len(s.asked()) > 0 {
		t.Error("the token was sent to a server that nobody trusts")
	}
	s.trust(t, s.Server) // renewed: no restart is needed
	must(t, ask(r, t, "other"))
	wantStatus(t, ask(r, t, "named"), 503, metav1.StatusReasonServiceUnavailable, "wrong.example")
}

// A Sluice that routes itself is no provider: it says so when its discovery is read, and queries are not sent to it.
func TestLoopIsFoundAtTheStart(t *testing.T) {
	routes := true
	s := newStandIn(t, func(w http.ResponseWriter, r *http.Request) {
		if routes && r.Header.Get(ForwardedHeader) != "" {
			w.Header().Set(RoutesHeader, "true")
		}
		if strings.HasSuffix(r.URL.Path, "/v1beta1") {
			answers(200, "application/json", `{"kind":"APIResourceList","resources":[{"name":"other"}]}`)(w, r)
			return
		}
		answers(200, "application/json", oneValue)(w, r)
	})
	r := routerOf(t, patient(), s.spec())
	r.providers[0].look(t.Context())
	wantStatus(t, ask(r, t, "other"), 503, metav1.StatusReasonServiceUnavailable, "is a Sluice that routes metrics itself")
	if len(s.asked()) != 1 || r.Listed() != nil {
		t.Errorf("%d requests; listed %v", len(s.asked()), r.Listed())
	}
	routes = false
	r.providers[0].look(t.Context())
	must(t, ask(r, t, "other"))
	// One that another Sluice forwards is not forwarded again.
	_, _, err := r.providers[0].Ask(t.Context(), Question{Namespace: "shop", Name: "other", Forwarded: true})
	wantStatus(t, err, http.StatusLoopDetected, metav1.StatusReasonServiceUnavailable, "requests go one hop")
	if why, _ := r.providers[0].Fault(); why != "" {
		t.Errorf("another Sluice's fault is the provider's: %s", why)
	}
	if got := testutil.ToFloat64(r.metrics.requests.WithLabelValues("other", string(loop))); got != 2 {
		t.Errorf("%v requests are counted as a loop", got)
	}
}

// Run looks at providers until its context ends, and notices that one is back.
func TestRunNotices(t *testing.T) {
	s := newStandIn(t, answers(200, "application/json", `{"kind":"APIResourceList","resources":[{"name":"other"}]}`))
	cfg := patient()
	cfg.Poll = time.Millisecond
	r := routerOf(t, cfg, s.spec())
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	until(t, func() bool { return len(r.Listed()) == 1 && testutil.ToFloat64(r.metrics.up) == 1 })
	s.CloseClientConnections()
	s.Listener.Close()
	s.CloseClientConnections()
	until(t, func() bool {
		why, _ := r.providers[0].Fault()
		return why != "" && testutil.ToFloat64(r.metrics.up) == 0
	})
	cancel()
	must(t, <-done)
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

func until(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to that")
		}
	}
}
