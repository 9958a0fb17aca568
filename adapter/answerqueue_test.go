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
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/metric"
)

// crowdSource has a metric of as many pods as the metric's name says, and counts concurrent
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
func (a *api) deaf(t *testing.T, path string) {
	tcp, err := net.Dial("tcp", a.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	if err := tcp.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(tls.Client(tcp, &tls.Config{InsecureSkipVerify: true}), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
}

// Concurrent large answers are collected one after the other, with small ones in between.
func TestLargeAnswersAreCollectedOneAtATime(t *testing.T) {
	s := &countingSource{hold: make(chan struct{})}
	a := start(t, s)
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

// A client that does not read its answer delays no other, until the reserved points exceed the
// limit. Then others get 429, and succeed once the slow client was cut off.
func TestSlowReadersOfLargeAnswers(t *testing.T) {
	for timeout := 6 * time.Second; !slowReaders(t, timeout); timeout *= 3 {
		if timeout > time.Minute {
			t.Fatal("slow clients hold up nobody: the test shows nothing")
		}
	}
}

// slowReaders is one run with a RequestTimeout. It returns false if an answer took so long that slow
// clients may have been cut off before: the machine was too slow.
func slowReaders(t *testing.T, timeout time.Duration) bool {
	const points = maxReserved * 2 / 5
	s := &countingSource{}
	a := start(t, s, func(c *Config) { c.RequestTimeout = timeout })
	began := time.Now()
	for i := range 2 {
		a.deaf(t, podsOf(points))
		eventually(t, "it was gathered", func() bool {
			return int(s.gathered.Load()) == i+1 || time.Since(began) > timeout
		})
	}
	roomCode, _, _, roomErr := a.ask(t.Context(), podsOf(maxReserved/10))
	code, _, retry, err := a.ask(t.Context(), podsOf(points))
	smallCode, _, _, smallErr := a.ask(t.Context(), podsOf(1))
	if time.Since(began) > timeout {
		return false
	}
	if roomCode != http.StatusOK {
		t.Errorf("what there is room for beside the slow: %d %v", roomCode, roomErr)
	}
	if code != http.StatusTooManyRequests || retry != "1" {
		t.Errorf("what there is no room for: %d, Retry-After %q, %v", code, retry, err)
	}
	if smallCode != http.StatusOK {
		t.Errorf("a small one: %d %v", smallCode, smallErr)
	}
	eventually(t, "the slow were cut off", func() bool {
		code, _, _, _ := a.ask(t.Context(), podsOf(points))
		return code == http.StatusOK
	})
	return true
}

// Clients that leave the queue free their places, and large answers leave places to small ones.
func TestWaitingForLargeAnswersIsBounded(t *testing.T) {
	s := &countingSource{hold: make(chan struct{})}
	a := start(t, s, func(c *Config) { c.MaxInFlight = 8 })
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil { // the request below may have been first
				_, _, _, _ = a.ask(ctx, podsOf(valuelist.MaxSmall+1))
			}
		})
	}
	var code int
	eventually(t, "there are too many", func() bool {
		soon, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer end()
		var retry string
		code, _, retry, _ = a.ask(soon, podsOf(valuelist.MaxSmall+1))
		return code == http.StatusTooManyRequests && retry == "1"
	})
	if code, _, _, err := a.ask(t.Context(), podsOf(1)); code != http.StatusOK {
		t.Errorf("a small one: %d %v", code, err)
	}
	cancel()
	asking.Wait()
	eventually(t, "those who left are gone", func() bool { return testutil.ToFloat64(a.metrics.inFlight) == 0 })
	time.Sleep(100 * time.Millisecond) // the library does not notice the end of the context at once
	close(s.hold)
	if code, _, _, err := a.ask(t.Context(), podsOf(valuelist.MaxSmall+1)); code != http.StatusOK {
		t.Errorf("who came after those who left: %d %v", code, err)
	}
	if n := s.gathered.Load(); n != 2 {
		t.Errorf("%d were gathered, want one before they left and the last", n)
	}
}

// Many large answers take the memory of a few, also if the library encodes them.
func TestMemoryOfManyLargeAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while with the race detector")
	}
	for _, c := range []struct {
		name, media     string
		clients, points int
		most            uint64
	}{
		{"protobuf", protobuf, 24, 50_000, 110 << 20}, // 7 MB each
		{"pretty", "application/json", 24, 10_000, 170 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The server's own setting: the test is about live memory, not garbage.
			defer debug.SetGCPercent(debug.SetGCPercent(25))
			// No answer is refused for its age.
			a := start(t, new(countingSource), func(c *Config) { c.RequestTimeout = 5 * time.Minute })
			peak, stop := make(chan uint64), make(chan struct{})
			runtime.GC()
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			go func() {
				most := uint64(0)
				for tick := time.NewTicker(5 * time.Millisecond); ; {
					select {
					case <-stop:
						peak <- most
						return
					case <-tick.C:
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						most = max(most, m.HeapAlloc)
					}
				}
			}()
			var asking sync.WaitGroup
			for range c.clients {
				asking.Go(func() {
					if code, n, _, err := a.askFor(t.Context(), podsOf(c.points)+"?pretty="+strconv.FormatBool(c.name == "pretty"), c.media); code != http.StatusOK || n < 50*c.points {
						t.Error(code, n, err)
					}
				})
			}
			asking.Wait()
			close(stop)
			most := <-peak - before.HeapAlloc
			t.Logf("%d MiB", most>>20)
			if most > c.most {
				t.Errorf("%d MiB, want at most %d", most>>20, c.most>>20)
			}
		})
	}
}

// The first answer that fits is admitted. Collected points count until they are written.
func TestQueueOrder(t *testing.T) {
	q := &answerQueue{maxAnswers: 10, timeout: time.Minute}
	enter := func(points int) *ticket {
		one := &ticket{queue: q}
		if !q.enqueue(one, points) {
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
	if q.answers != 0 || q.reserved != 0 {
		t.Errorf("%d are left, with %d points", q.answers, q.reserved)
	}
}

// Answers are admitted one at a time, within maxReserved, and none is lost.
func TestQueueUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &answerQueue{maxAnswers: 50, timeout: time.Minute}
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
		if q.answers != 0 || q.reserved != 0 || q.collecting || len(q.waiting) != 0 {
			t.Errorf("%d are left, with %d points", q.answers, q.reserved)
		}
	})
}
