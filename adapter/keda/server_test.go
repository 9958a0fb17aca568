package keda

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// oneMetric is a Source with one value; NaN: the metric is absent.
type oneMetric struct {
	mu      sync.Mutex
	value   float64
	changes atomic.Uint64
	asked   atomic.Pointer[trigger.Question]
	reads   atomic.Uint64
	open    atomic.Int64 // watches

	// The fields below belong to the goroutine that looks.
	seen    uint64
	watched map[*oneAsked]bool
}

func (o *oneMetric) set(v float64) {
	o.mu.Lock()
	o.value = v
	o.mu.Unlock()
	o.changes.Add(1)
}

func (o *oneMetric) Ask(q trigger.Question) (Asked, error) {
	o.asked.Store(&q)
	switch q.Metric {
	case "invalid":
		return nil, metric.InvalidQueryf("invalid")
	case "denied":
		return nil, &metric.QueryError{Is: metric.ErrForbidden, Message: "denied by a policy"}
	}
	return &oneAsked{oneMetric: o}, nil
}

func (o *oneMetric) Look() {
	if now := o.changes.Load(); now != o.seen {
		o.seen = now
		for oneAsked := range o.watched {
			oneAsked.changed()
		}
	}
}

type oneAsked struct {
	*oneMetric
	changed func()
}

func (o *oneAsked) Watch(changed func()) {
	o.changed = changed
	o.watched[o] = true
	o.open.Add(1)
}

func (o *oneAsked) Unwatch() {
	delete(o.watched, o)
	o.open.Add(-1)
}

func (o *oneAsked) Value() (metric.Number, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads.Add(1)
	if math.IsNaN(o.value) {
		return metric.Number{}, metric.NotFoundf("no series")
	}
	if o.value == unknown {
		return metric.Number{}, metric.Unknownf("an operand has no value")
	}
	return metric.Float(o.value), nil
}

// unknown stands for a value that is not known.
const unknown = -404

// served is a server with a client.
type served struct {
	*oneMetric
	externalscaler.ExternalScalerClient
	conn   *grpc.ClientConn
	server *Server
	stop   context.CancelFunc
	ended  chan error
	ready  atomic.Bool
	// impatient: an answer that comes late fails. Otherwise the machine was too slow, and the client
	// asks again.
	impatient atomic.Bool
}

func (s *served) askAgain(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) (err error) {
	for range 10 {
		err = call(ctx, method, req, answer, conn, options...)
		slow := err != nil && (strings.Contains(err.Error(), "no answer within") || status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil)
		if s.impatient.Load() || !slow {
			break
		}
	}
	return err
}

func serve(t *testing.T) *served {
	t.Helper()
	t.Parallel()
	s := &served{oneMetric: &oneMetric{value: math.NaN(), watched: map[*oneAsked]bool{}}, ended: make(chan error, 1)}
	s.ready.Store(true)
	server, err := Listen(Config{Address: "127.0.0.1:0", Insecure: true}, Parts{
		Source: s.oneMetric, Ready: func() (bool, string) { return s.ready.Load(), "restoring the store" }, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	s.server, s.stop = server, stop
	go func() { s.ended <- server.Run(ctx) }()
	s.conn, err = grpc.NewClient(server.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(s.askAgain))
	must(t, err)
	s.ExternalScalerClient = externalscaler.NewExternalScalerClient(s.conn)
	t.Cleanup(func() {
		stop()
		_ = s.conn.Close()
		if s.ended != nil {
			<-s.ended
		}
	})
	return s
}

func ref(metadata ...string) *externalscaler.ScaledObjectRef {
	r := &externalscaler.ScaledObjectRef{Name: "worker", Namespace: "shop", ScalerMetadata: map[string]string{"metric": "jobs:last", "target": "2.5"}}
	for i := 0; i < len(metadata); i += 2 {
		r.ScalerMetadata[metadata[i]] = metadata[i+1]
	}
	return r
}

func wantCode(t *testing.T, err error, code codes.Code, fragment string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(err.Error(), fragment) {
		t.Errorf("%v; want %s with %q", err, code, fragment)
	}
}

// A specification is of the metadata alone: it never fails for a metric that nobody has pushed.
func TestSpecificationNeedsNoValue(t *testing.T) {
	s := serve(t)
	spec, err := s.GetMetricSpec(t.Context(), ref())
	if err != nil || len(spec.GetMetricSpecs()) != 1 {
		t.Fatalf("%v %v", spec, err)
	}
	getMetricSpec := spec.GetMetricSpecs()[0]
	if getMetricSpec.GetMetricName() != "jobs-last" || getMetricSpec.GetTargetSizeFloat() != 2.5 || getMetricSpec.GetTargetSize() != 3 {
		t.Errorf("%v", getMetricSpec)
	}
	s.ready.Store(false) // before the store is restored
	if again, err := s.GetMetricSpec(t.Context(), ref()); err != nil || again.GetMetricSpecs()[0].GetMetricName() != getMetricSpec.GetMetricName() {
		t.Errorf("before the start is over: %v %v", again, err)
	}
	stream, err := s.StreamMetricSpec(t.Context(), ref())
	must(t, err)
	if first, err := stream.Recv(); err != nil || first.GetMetricSpecs()[0].GetMetricName() != getMetricSpec.GetMetricName() {
		t.Errorf("the stream begins with %v %v", first, err)
	}
}

// KEDA logs the error of a specification and shows that of a value. So a trigger with wrong metadata has
// a specification, and its value is an error that names the faults.
func TestWrongMetadataIsAnErrorOfTheValue(t *testing.T) {
	s := serve(t)
	s.set(1)
	wrong := ref("target", "none", "metirc", "jobs")
	delete(wrong.ScalerMetadata, "metric")
	spec, err := s.GetMetricSpec(t.Context(), wrong)
	if err != nil || len(spec.GetMetricSpecs()) != 1 {
		t.Fatalf("%v %v", spec, err)
	}
	if getMetricSpec := spec.GetMetricSpecs()[0]; getMetricSpec.GetMetricName() == "" || getMetricSpec.GetTargetSizeFloat() <= 0 {
		t.Errorf("%v: must have a name and a target", getMetricSpec)
	}
	for _, fragment := range []string{`target is "none"`, "metric is missing", `did you mean "metric"?`} {
		_, err = s.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: wrong})
		wantCode(t, err, codes.InvalidArgument, fragment)
		_, err = s.IsActive(t.Context(), wrong)
		wantCode(t, err, codes.InvalidArgument, fragment)
	}
}

// The operator's calls have no deadline, and one that does not return keeps it from scaling on pushes.
func TestAnswersTakeASecondAtMost(t *testing.T) {
	s := serve(t)
	s.mu.Lock() // Value waits
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	s.impatient.Store(true)
	_, err := s.IsActive(ctx, ref())
	wantCode(t, err, codes.Unavailable, "no answer within 1s")
	_, err = s.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: ref()})
	wantCode(t, err, codes.Unavailable, "no answer within 1s")
}

// An answer that hangs keeps its place though its caller has been answered, and beyond the last place requests are refused.
func TestHangingAnswersAreBounded(t *testing.T) {
	s := serve(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	s.impatient.Store(true)
	places := s.server.patience.answering
	for places.Of("shop") == 0 { // on a slow machine, one may end before it has its turn
		_, err := s.IsActive(ctx, ref())
		wantCode(t, err, codes.Unavailable, "no answer within 1s")
	}
	for n := places.Of("shop"); s.server.patience.begin(ctx, "shop") == nil; n++ {
		if n > mostAnswering {
			t.Fatalf("%d answers are under way", n)
		}
	}
	_, err := s.IsActive(ctx, ref())
	wantCode(t, err, codes.Unavailable, "answers are under way")
}

// The operator adds up what it gets, so there is one value, and it is finite and not below 0.
func TestMetricsAreOneValue(t *testing.T) {
	s := serve(t)
	get := func(metadata ...string) (*externalscaler.MetricValue, error) {
		answer, err := s.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref(metadata...), MetricName: "jobs-last"})
		if err != nil {
			return nil, err
		}
		if len(answer.GetMetricValues()) != 1 {
			t.Fatalf("%d values", len(answer.GetMetricValues()))
		}
		return answer.GetMetricValues()[0], nil
	}
	_, err := get()
	wantCode(t, err, codes.NotFound, `absent: "0"`)
	if v, err := get("absent", "0"); err != nil || v.GetMetricValueFloat() != 0 {
		t.Errorf("absent: %v %v", v, err)
	}
	for value, want := range map[float64]float64{7.5: 7.5, -3: 0, math.Inf(1): 0} {
		s.set(value)
		if v, err := get(); err != nil || v.GetMetricValueFloat() != want || v.GetMetricValue() != int64(math.Ceil(want)) || v.GetMetricName() != "jobs-last" {
			t.Errorf("%v: %v %v", value, v, err)
		}
	}
	if v := finite(math.NaN()); v != 0 {
		t.Errorf("NaN: %v", v)
	}
	s.set(unknown)
	_, err = get("absent", "0")
	wantCode(t, err, codes.NotFound, "an operand has no value")
	if strings.Contains(err.Error(), "would read 0") {
		t.Error(err)
	}
	if q := s.asked.Load(); q.Namespace != "shop" || q.Metric != "jobs:last" || q.Object != trigger.External {
		t.Errorf("asked %+v", q)
	}
	_, err = get("metric", "invalid")
	wantCode(t, err, codes.InvalidArgument, "invalid")
	_, err = get("metric", "denied", "absent", "0")
	wantCode(t, err, codes.PermissionDenied, "denied by a policy")
}

// Until the store is restored and the cluster is read, no value is known: not even that a metric is absent.
func TestNoValueBeforeTheStart(t *testing.T) {
	s := serve(t)
	s.ready.Store(false)
	for range 2 { // absent, then with a value
		_, err := s.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref("absent", "0")})
		wantCode(t, err, codes.Unavailable, "restoring the store")
		_, err = s.IsActive(t.Context(), ref("absent", "0"))
		wantCode(t, err, codes.Unavailable, "restoring the store")
		s.set(7)
	}
}

// "Don't know" is an error, never false.
func TestIsActive(t *testing.T) {
	s := serve(t)
	_, err := s.IsActive(t.Context(), ref())
	wantCode(t, err, codes.NotFound, "")
	s.ready.Store(false)
	_, err = s.IsActive(t.Context(), ref("absent", "0"))
	wantCode(t, err, codes.Unavailable, "restoring the store")
	s.ready.Store(true)
	for value, want := range map[float64]bool{0: false, 3: false, 3.5: true} {
		s.set(value)
		if answer, err := s.IsActive(t.Context(), ref("activation", "3")); err != nil || answer.GetResult() != want {
			t.Errorf("%v: %v %v, want %t", value, answer, err, want)
		}
	}
}

// received passes on what a stream sends; it is closed when the stream ends.
func (s *served) received(t *testing.T, metadata ...string) (<-chan bool, func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*late)
	t.Cleanup(cancel)
	stream, err := s.StreamIsActive(ctx, ref(metadata...))
	must(t, err)
	got := make(chan bool, 64)
	var end error
	go func() {
		defer close(got)
		for {
			i, err := stream.Recv()
			if err != nil {
				end = err
				return
			}
			got <- i.GetResult()
		}
	}()
	return got, func() error { return end }
}

// late is when a test gives up. Watcher tests in virtual time measure how soon news are told.
const late = time.Minute

func wantNext(t *testing.T, got <-chan bool, want bool) {
	t.Helper()
	select {
	case one, ok := <-got:
		if !ok || one != want {
			t.Errorf("got %t (open: %t), want %t", one, ok, want)
		}
	case <-time.After(late):
		t.Errorf("nothing within %s, want %t", late, want)
	}
}

// The stream says the state at once, each crossing, and true again while it lasts.
func TestStreamIsActive(t *testing.T) {
	s := serve(t)
	s.set(0)
	got, _ := s.received(t, "activation", "5")
	wantNext(t, got, false)
	before := s.reads.Load()
	s.set(4) // no crossing
	for s.reads.Load() == before {
		time.Sleep(time.Millisecond)
	}
	s.set(6)
	wantNext(t, got, true)
	wantNext(t, got, true) // repeated
	s.set(1)
	wantFalseAtLast(t, got)
}

// wantFalseAtLast skips repetitions that are under way.
func wantFalseAtLast(t *testing.T, got <-chan bool) {
	t.Helper()
	for giveUp := time.After(late); ; {
		select {
		case active, open := <-got:
			if !open || !active {
				return
			}
		case <-giveUp:
			t.Error("false was not said")
			return
		}
	}
}

// A metric that is absent is neither active nor an error on the stream: it waits for a sample.
func TestStreamWaitsForTheFirstSample(t *testing.T) {
	s := serve(t)
	got, _ := s.received(t)
	select {
	case one := <-got:
		t.Errorf("got %t", one)
	case <-time.After(200 * time.Millisecond):
	}
	s.set(1)
	wantNext(t, got, true)
}

// A metric that is absent reads 0 with absent: "0", which the stream says at once.
func TestStreamOfAnAbsentMetricReadsZero(t *testing.T) {
	s := serve(t)
	got, _ := s.received(t, "absent", "0")
	wantNext(t, got, false)
	s.set(1)
	wantNext(t, got, true)
}

// A stream that is opened before the start is over waits: an error would make the operator wait longer
// each time.
func TestStreamWaitsForTheStart(t *testing.T) {
	s := serve(t)
	s.set(1)
	s.ready.Store(false)
	got, end := s.received(t, "absent", "0")
	select {
	case one, open := <-got:
		t.Fatalf("got %t (open: %t, %v)", one, open, end())
	case <-time.After(300 * time.Millisecond):
	}
	s.ready.Store(true)
	wantNext(t, got, true)
}

// The operator has two streams per trigger on one connection.
func TestAConnectionHasManyStreams(t *testing.T) {
	s := serve(t)
	s.set(1)
	for i := range 1000 {
		got, end := s.received(t)
		select {
		case one, open := <-got:
			if !one || !open {
				t.Fatalf("stream %d: %t (open: %t, %v)", i, one, open, end())
			}
		case <-time.After(late):
			t.Fatalf("stream %d: nothing", i)
		}
	}
}

// All streams end without an error when the process stops: the operator then connects again at once, and
// not after a wait that doubles.
func TestStreamsEndWithTheServer(t *testing.T) {
	s := serve(t)
	s.server.stopPatience = time.Hour // nothing is cut off
	s.set(1)
	got, end := s.received(t)
	wantNext(t, got, true)
	spec, err := s.StreamMetricSpec(t.Context(), ref())
	must(t, err)
	if _, err := spec.Recv(); err != nil {
		t.Fatal(err)
	}
	s.ready.Store(false)
	waiting, endOfWaiting := s.received(t) // for the start
	for s.server.count.open.Load() < 3 {
		time.Sleep(10 * time.Millisecond)
	}
	s.stop()
	must(t, <-s.ended)
	s.ended = nil
	for range got {
	}
	for range waiting {
	}
	_, endOfSpec := spec.Recv()
	for name, err := range map[string]error{"StreamIsActive": end(), "StreamIsActive before the start": endOfWaiting(), "StreamMetricSpec": endOfSpec} {
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s ended with %v, want EOF", name, err)
		}
	}
}

// A stream that KEDA closes was answered well: it counts as Canceled, of which no alert tells, in whatever state it is.
func TestStreamsThatTheClientEndsAreCanceled(t *testing.T) {
	s := serve(t)
	ended := func(method string) (all, canceled float64) {
		for code := codes.OK; code <= codes.Unauthenticated; code++ {
			n := testutil.ToFloat64(s.server.count.requests.WithLabelValues(method, code.String()))
			if all += n; code == codes.Canceled {
				canceled = n
			}
		}
		return all, canceled
	}
	s.set(1)
	for i, ready := range []bool{true, false} { // the second stream waits for the start
		s.ready.Store(ready)
		for method, open := range map[string]func(ctx context.Context) error{
			"StreamIsActive": func(ctx context.Context) error {
				_, err := s.StreamIsActive(ctx, ref("metric", "m", "target", "1"))
				return err
			},
			"StreamMetricSpec": func(ctx context.Context) error {
				_, err := s.StreamMetricSpec(ctx, ref("metric", "m", "target", "1"))
				return err
			},
		} {
			ctx, end := context.WithCancel(t.Context())
			must(t, open(ctx))
			for s.server.count.open.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			end()
			all, canceled := ended(method)
			for ; all < float64(i+1); all, canceled = ended(method) {
				time.Sleep(time.Millisecond)
			}
			if all != canceled {
				t.Errorf("%s: %v of %v streams are Canceled, want all", method, canceled, all)
			}
		}
	}
}

func TestHealth(t *testing.T) {
	s := serve(t)
	answer, err := grpc_health_v1.NewHealthClient(s.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v %v", answer, err)
	}
}

// An idle trigger is read once every readIdle, however often it is looked at.
func TestIdleTriggersAreNotRead(t *testing.T) {
	s := serve(t)
	s.set(0)
	got, _ := s.received(t)
	wantNext(t, got, false)
	before := s.reads.Load()
	time.Sleep(2 * time.Second)
	if reads := s.reads.Load() - before; reads > 1 {
		t.Errorf("%d reads", reads)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
