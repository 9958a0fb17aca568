package adapter

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	runtimemetrics "runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/metric"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// countingSource has a metric of as many pods as the metric's name says, and counts concurrent
// collections.
type countingSource struct {
	memory
	hold      chan struct{} // nil, or received from while a large answer is collected
	gathering atomic.Int32
	most      atomic.Int32
	gathered  atomic.Int32
}

func (s *countingSource) Objects(q metric.Query) ([]metric.Point, error) {
	n := 0
	if _, err := fmt.Sscanf(q.Expression.Name, "of_%d", &n); err != nil {
		return nil, err
	}
	points, err := q.Reserve(n)
	if err != nil {
		return nil, err
	}
	if n > valuelist.MaxSmall {
		s.most.Store(max(s.most.Load(), s.gathering.Add(1)))
		if s.hold != nil {
			<-s.hold
		}
		defer s.gathering.Add(-1)
		defer s.gathered.Add(1)
	}
	points = slices.Grow(points[:0], n)
	for i := range n {
		points = append(points, metric.Point{Object: pod("web-with-a-name-of-some-length"), Value: metric.Int(int64(i)), Time: noon})
	}
	return points, nil
}

func podsOf(n int) string {
	return fmt.Sprintf("%sv1beta2/namespaces/shop/pods/*/of_%d", customRoot, n)
}

// ask requests a path and reads the whole answer.
func (a *api) ask(ctx context.Context, path string) (code, bytes int, retry string, err error) {
	return a.askFor(ctx, path, protobuf)
}

func (a *api) askFor(ctx context.Context, path, media string) (code, bytes int, retry string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return 0, 0, "", err
	}
	req.Header.Set("Accept", media)
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, 0, "", err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, int(n), resp.Header.Get("Retry-After"), err
}

// deaf requests a path on a connection of its own and never reads.
func (a *api) deaf(t *testing.T, path string) net.Conn {
	tcp, err := net.Dial("tcp", a.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = tcp.Close() })
	must(t, tcp.(*net.TCPConn).SetReadBuffer(4096))
	fmt.Fprintf(tls.Client(tcp, &tls.Config{InsecureSkipVerify: true}), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
	return tcp
}

// Concurrent large answers are collected one after the other, with small ones in between.
func TestLargeAnswersAreCollectedOneAtATime(t *testing.T) {
	s := &countingSource{hold: make(chan struct{})}
	a := start(t, s, func(c *Config) { c.RequestTimeout = time.Hour })
	const clients = 20
	codes := make(chan int, clients)
	for range clients {
		go func() {
			code, n, _, err := a.ask(t.Context(), podsOf(valuelist.MaxSmall+1))
			if err != nil || n < 50*valuelist.MaxSmall {
				t.Error(n, err)
			}
			codes <- code
		}()
	}
	for range clients {
		eventually(t, "one is gathered", func() bool { return s.gathering.Load() == 1 })
		if code, _, _, err := a.ask(t.Context(), podsOf(valuelist.MaxSmall)); code != http.StatusOK {
			t.Errorf("a small one: %d %v", code, err)
		}
		s.hold <- struct{}{}
	}
	for range clients {
		if code := <-codes; code != http.StatusOK {
			t.Error(code)
		}
	}
	if n := s.most.Load(); n != 1 {
		t.Errorf("%d were gathered at once", n)
	}
}

// Clients that do not read their answers hold the places of large answers, and delay no small one.
// No time passes out: the clients leave.
func TestSlowReadersOfLargeAnswers(t *testing.T) {
	s := &countingSource{}
	a := start(t, s, func(c *Config) { c.MaxInFlight, c.RequestTimeout = 4, time.Hour })
	const points = maxReserved * 2 / 5
	var slow []net.Conn
	for i := range 2 {
		slow = append(slow, a.deaf(t, podsOf(points)))
		eventually(t, "it was gathered", func() bool { return int(s.gathered.Load()) == i+1 })
	}
	if code, _, retry, err := a.ask(t.Context(), podsOf(points)); code != http.StatusTooManyRequests || retry != "1" {
		t.Errorf("one too many: %d, Retry-After %q, %v", code, retry, err)
	}
	if code, _, _, err := a.ask(t.Context(), podsOf(1)); code != http.StatusOK {
		t.Errorf("a small one: %d %v", code, err)
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
	eventually(t, "there is room again", func() bool {
		code, _, _, _ := a.ask(t.Context(), podsOf(points))
		return code == http.StatusOK
	})
}

// Large answers leave places to small ones. Clients that leave the queue free their places.
func TestWaitingForLargeAnswersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large = valuelist.MaxSmall + 1
		q := newAnswerQueue(Config{MaxInFlight: 8, RequestTimeout: time.Minute}, unshared)
		first := &ticket{queue: q}
		must(t, q.wait(t.Context(), first, large))
		ctx, leave := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if err := q.wait(ctx, &ticket{queue: q}, large); err == nil {
					t.Error("two are collected at once")
				}
			})
		}
		synctest.Wait()
		if err := q.wait(t.Context(), &ticket{queue: q}, large); !apierrors.IsTooManyRequests(err) {
			t.Errorf("the fifth of four: %v", err)
		}
		small := &ticket{queue: q}
		if _, err := small.buffer(t.Context())(valuelist.MaxSmall); err != nil {
			t.Errorf("a small one: %v", err)
		}
		small.release()
		leave()
		waiting.Wait()
		first.release()
		last := &ticket{queue: q}
		if err := q.wait(t.Context(), last, large); err != nil {
			t.Errorf("one that comes after those that left: %v", err)
		}
		last.release()
	})
}

// An answer that asks two sources, because the first one has nothing, waits once, and gives back all that it has.
func TestALargeAnswerOfTwoSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large = valuelist.MaxSmall + 1
		q := newAnswerQueue(Config{MaxInFlight: 8, RequestTimeout: time.Minute}, unshared)
		one := &ticket{queue: q}
		reserve := one.buffer(t.Context())
		for range 2 {
			if _, err := reserve(large); err != nil {
				t.Error(err)
			}
		}
		one.collected(make([]metric.Point, large))
		one.release()
		if err := q.wait(t.Context(), &ticket{queue: q}, maxReserved); err != nil {
			t.Errorf("something of the answer stays reserved: %v", err)
		}
	})
}

// Many large answers take the memory of a few.
func TestMemoryOfManyLargeAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while with the race detector")
	}
	const clients, points, most = 24, 50_000, 110 << 20 // 7 MB each
	// No answer is refused for its age.
	a := start(t, new(countingSource), func(c *Config) { c.RequestTimeout = 5 * time.Minute })
	before := liveHeap()
	peak, answered := make(chan int64), make(chan struct{})
	go func() {
		seen := int64(0)
		for {
			select {
			case <-answered:
				peak <- seen
				return
			default:
				seen = max(seen, liveHeap())
			}
		}
	}()
	var asking sync.WaitGroup
	for range clients {
		asking.Go(func() {
			if code, n, _, err := a.askFor(t.Context(), podsOf(points), protobuf); code != http.StatusOK || n < 50*points {
				t.Error(code, n, err)
			}
		})
	}
	asking.Wait()
	close(answered)
	took := <-peak - before
	t.Logf("%d MiB", took>>20)
	if took > most {
		t.Errorf("%d MiB, want at most %d", took>>20, most>>20)
	}
}

// liveHeap collects garbage, and returns what is in use. Garbage that waits to be collected is the more the slower the
// machine is.
func liveHeap() int64 {
	runtime.GC()
	live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(live)
	return int64(live[0].Value.Uint64())
}

// The first answer that fits is admitted. Collected points count until they are written.
func TestQueueOrder(t *testing.T) {
	q := &answerQueue{answers: unshared(10), reserved: unshared(maxReserved), timeout: time.Minute}
	enter := func(points int) *ticket {
		one := &ticket{queue: q}
		if q.enqueue(one, points) != "" {
			t.Fatal("refused")
		}
		return one
	}
	gather := func(one *ticket, points int) {
		one.points = make([]metric.Point, 0, points)
		one.collected(nil)
	}
	slow, large, small, last := enter(5_000), enter(20_000), enter(9_000), enter(20_000)
	whose := func(when string, want ...*ticket) {
		t.Helper()
		for i, one := range []*ticket{slow, large, small, last} {
			came := false
			select {
			case <-one.admitted:
				came = true
			default:
			}
			if came != slices.Contains(want, one) {
				t.Errorf("%s: number %d has had its turn: %v", when, i, came)
			}
		}
	}
	whose("at first", slow)
	gather(slow, maxReserved-10_000) // in another answer's buffer
	whose("while one is read slowly", slow, small)
	gather(small, 9_000)
	whose("while nobody fits", slow, small)
	slow.release()
	whose("after it was read", slow, small, large)
	gather(large, 20_000)
	whose("at last", slow, small, large, last)
	for _, one := range []*ticket{large, small, last} {
		one.release()
	}
	if q.answers.taken.Held() != 0 || q.reserved.taken.Held() != 0 {
		t.Errorf("%d are left, with %d points", q.answers.taken.Held(), q.reserved.taken.Held())
	}
}

// Who reads slowly what has half of all points leaves room for the large answers of others.
func TestPointsHaveShares(t *testing.T) {
	q := newAnswerQueue(Config{MaxInFlight: 20, RequestTimeout: 2 * time.Minute}, byReader)
	admitted := func(reader string, points int) bool {
		one := &ticket{queue: q, reader: reader}
		if q.enqueue(one, points) != "" {
			t.Fatal("refused")
		}
		select {
		case <-one.admitted:
			one.points = make([]metric.Point, 0, points)
			one.collected(nil)
			return true
		default:
			return !q.cancel(one)
		}
	}
	for n, want := range []bool{true, false} {
		if admitted("a", maxReserved/2) != want {
			t.Errorf("answer %d of half of the points: %v", n, !want)
		}
	}
	if !admitted("a", maxReserved/16) || !admitted("b", maxReserved/8) || !admitted("c", maxReserved/8) {
		t.Error("answers of less, or of others, wait")
	}
}

// Answers are admitted one at a time, within maxReserved, and none is lost.
func TestQueueUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &answerQueue{answers: unshared(50), reserved: unshared(maxReserved), timeout: time.Minute}
		random := rand.New(rand.NewPCG(7, 8))
		var busy atomic.Bool
		var held, gone, came atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			points := 1 + random.IntN(maxReserved/2)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(200))*time.Second)
			all.Go(func() {
				defer cancel()
				one := &ticket{queue: q}
				defer one.release()
				begun := time.Now()
				if err := q.wait(ctx, one, points); err != nil {
					if ctx.Err() == nil && time.Since(begun) != q.timeout || !strings.Contains(err.Error(), "one at a time") {
						t.Errorf("after %s: %v", time.Since(begun), err)
					}
					gone.Add(1)
					return
				}
				came.Add(1)
				if busy.Swap(true) || held.Add(int64(points)) > maxReserved {
					t.Errorf("%d points, or two at once", held.Load())
				}
				time.Sleep(time.Second)
				busy.Store(false)
				one.points = make([]metric.Point, 0, points)
				one.collected(nil)
				time.Sleep(6 * time.Second)
				held.Add(-int64(points))
			})
			synctest.Wait()
		}
		all.Wait()
		if came.Load() < 10 || gone.Load() < 10 || came.Load()+gone.Load() != 50 {
			t.Errorf("%d came, %d went: the test shows nothing", came.Load(), gone.Load())
		}
		alone := &ticket{queue: q}
		if err := q.wait(t.Context(), alone, 2*maxReserved); err != nil {
			t.Errorf("one that is more than all may be: %v", err)
		}
		alone.release()
		if q.answers.taken.Held() != 0 || q.reserved.taken.Held() != 0 || q.collecting || len(q.waiting) != 0 {
			t.Errorf("%d are left, with %d points", q.answers.taken.Held(), q.reserved.taken.Held())
		}
	})
}
