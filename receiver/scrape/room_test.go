package scrape

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// Pages that send much and then hang take no more memory than there is room, and leave small pages, and each pod its
// share.
func TestRoomOfLargePages(t *testing.T) {
	hangs := func(lines string) http.HandlerFunc {
		return func(to http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(to, lines)
			to.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
	for name, lines := range map[string]string{
		"lines":    strings.Repeat("m{a=\"b\"} 1\n", 20_000),
		"one line": "m{a=\"" + strings.Repeat("b", 60_000),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				every := metric.Endpoint{Port: 80, Names: []string{"m"}, Interval: 10 * time.Second}
				for i := range 400 {
					w.pod(fmt.Sprint("hostile-", i), fmt.Sprintf("10.1.%d.%d", i/200, i%200), hangs(lines), every)
				}
				var page strings.Builder
				for i := range 1000 {
					fmt.Fprintf(&page, "m{a=\"%d\"} 1\n", i)
				}
				often := metric.Endpoint{Port: 80, Names: []string{"m"}, Interval: time.Second}
				w.pod("small", "10.2.0.1", text("m 7\n"), often)
				w.pod("larger", "10.2.0.2", text(page.String()), often)
				w.run()
				most := 0
				for range 25 {
					time.Sleep(time.Second)
					synctest.Wait()
					w.fetcher.room.mu.Lock()
					most = max(most, w.fetcher.room.kept)
					w.fetcher.room.mu.Unlock()
					for _, target := range w.Targets("shop") {
						honest := target.Pod == "small" || target.Pod == "larger"
						if honest && target.State == inspect.TargetFailing {
							t.Fatalf("%+v", target)
						}
					}
				}
				if most > 2*maxTogether || most < maxTogether/4 {
					t.Errorf("pages kept %d bytes at once", most)
				}
				w.small.Lock()
				defer w.small.Unlock()
				if w.small.text == nil {
					t.Error("the reader of small pages is not kept")
				}
			})
		})
	}
}

// When pages have ended, nothing is kept of them, nor of the reader of a large one.
func TestRoomIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("web", "10.0.0.1", text(strings.Repeat("# a comment\n", 10)+"m{a=\""+strings.Repeat("b", 30_000)+"\"} 1\n"),
			metric.Endpoint{Port: 80, Names: []string{"m"}})
		w.run()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if len(w.took()) == 0 && w.Targets("")[0].LastScrape.IsZero() {
			t.Errorf("%+v", w.Targets(""))
		}
		if w.fetcher.room.kept != 0 || len(w.fetcher.room.of) != 0 || w.large.text != nil {
			t.Errorf("%d bytes are kept, of %v; reader: %v", w.fetcher.room.kept, w.fetcher.room.of, w.large.text != nil)
		}
	})
}

// The headers of a page do not stay while its body is read, which takes as long as the pod likes.
func TestHeadersAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("web", "10.0.0.1", http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
			for i := range 400 {
				to.Header().Set(fmt.Sprint("X", i), "")
			}
			_, _ = io.WriteString(to, "m 1\n")
		}), metric.Endpoint{Port: 80, Names: []string{"m"}})
		seen := &headersSeen{RoundTripper: w.fetcher.http.Transport}
		w.fetcher.http.Transport = seen
		w.run()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if n := len(w.took()); n == 0 || seen.reads == 0 || seen.kept > 0 {
			t.Errorf("%d headers are kept in %d reads, of pages with %d samples", seen.kept, seen.reads, n)
		}
	})
}

// headersSeen counts the headers of responses whose body is read.
type headersSeen struct {
	http.RoundTripper
	reads, kept int
}

func (h *headersSeen) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := h.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = bodyOf{response.Body, response, h}
	}
	return response, err
}

type bodyOf struct {
	io.ReadCloser
	response *http.Response
	seen     *headersSeen
}

func (b bodyOf) Read(into []byte) (int, error) {
	b.seen.reads++
	b.seen.kept += len(b.response.Header)
	return b.ReadCloser.Read(into)
}

// Each pod may keep an equal share, whatever others keep.
func TestEqualShares(t *testing.T) {
	r := room{most: maxTogether}
	for i := 0; r.grow(fmt.Sprint("hostile-", i%4), 1<<20); i++ {
	}
	if r.kept != maxTogether {
		t.Errorf("four pods keep %d bytes", r.kept)
	}
	for i := range 4 {
		if !r.grow(fmt.Sprint(i), maxTogether/8) {
			t.Errorf("pod %d has no share", i)
		}
	}
	if r.grow("0", 1) && r.grow("0", maxTogether/8) {
		t.Error("a pod takes more than its share")
	}
	if r.grow("hostile-0", 1) {
		t.Error("who has most takes more")
	}
}

// Endpoints that hang, of many pods, are not all read at once: each takes memory. They hold up those of no other pod,
// whether it has one or several.
func TestPagesThatAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		add := func(name, address string, page http.HandlerFunc, endpoints int, interval time.Duration) {
			of := len(w.pods)
			for port := range endpoints {
				e := metric.Endpoint{Port: uint16(port + 1), Names: []string{fmt.Sprint("m", port)}, Interval: interval}
				w.pod(name, address, page, e)
			}
			all := w.pods[of:]
			for _, one := range all[1:] {
				all[0].Endpoints = append(all[0].Endpoints, one.Endpoints...)
			}
			w.pods = w.pods[:of+1]
		}
		for i := range 100 {
			add(fmt.Sprint("hostile-", i), fmt.Sprint("10.1.0.", i), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 16, 10*time.Second)
		}
		add("web", "10.2.0.1", text("m0 1\nm1 1\nm2 1\n"), 3, time.Second)
		w.run()
		most := 0
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			open := 0
			w.change(func() {
				for _, n := range w.open {
					open += n
				}
			})
			most = max(most, open)
		}
		if most > mostAtOnce+100 || most < mostAtOnce {
			t.Errorf("%d pages were read at once", most)
		}
		if n := len(w.took()); n < 3*29 {
			t.Errorf("%d samples of three endpoints in 30 s", n)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a page that waits for a turn ends with its target
		of := turns{most: mostAtOnce, of: map[string]*podTurns{}}
		of.begin(t.Context(), "a")
		of.read = mostAtOnce
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan bool)
		for range 2 {
			go func() { ended <- of.begin(ctx, "a") }()
		}
		synctest.Wait()
		of.end("a")
		if !<-ended {
			t.Error("the first that waits has no turn")
		}
		end()
		if <-ended {
			t.Error("a target that has ended has a turn")
		}
		of.end("a")
		if len(of.of) != 0 || of.read != mostAtOnce-1 {
			t.Errorf("%d turns are left", of.read)
		}
	})
}

// A large page that is parsed or applied delays no small one, and a target that ends meanwhile gives no more samples.
func TestLargePagesDelayNoSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("web", "10.2.0.1", text("m 7\n"), metric.Endpoint{Port: 80, Names: []string{"m"}, Interval: time.Second})
		w.large.Lock() // as long as a large page is parsed
		w.run()
		time.Sleep(3*time.Second + time.Millisecond)
		synctest.Wait()
		w.large.Unlock()
		if n := len(w.took()); n != 3 {
			t.Errorf("%d samples in 3 s", n)
		}
	})
	w := newWorld(t)
	pod := &metric.Pod{Namespace: "shop", Name: "web", UID: "uid-web"}
	of := &target{pod: pod}
	w.reject["m"] = metric.OverLimit
	w.parts.Explain = func(metric.Reason, *metric.Sample) string { of.ended.Store(true); return "" }
	var page strings.Builder
	for i := range 3 * batch {
		fmt.Fprintf(&page, "m{a=\"%d\"} 1\n", i)
	}
	f := w.Scraper.apply(of, []byte(page.String()), &metric.Sender{Pod: pod}, time.Now())
	if n := w.account.Rejected(metric.OverLimit); f != errEnded || n != batch {
		t.Errorf("%d samples of a target that ended in its first batch, %v", n, f)
	}
}

// An agent has a tenth of a server's memory: its limits hold in the place of a server's.
func TestFetchLimits(t *testing.T) {
	f := NewFetcher(FetchParts{Limits: FetchLimits{AtOnce: 2, Together: 1 << 20}})
	if !f.room.grow("web", 1<<20) || f.room.grow("web", 1) {
		t.Errorf("a pod keeps %d bytes", f.room.kept)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for turn, want := range []bool{true, true, false} {
		if f.turns.begin(ended, "web") != want {
			t.Errorf("turn %d of 2 is given: %t", turn+1, !want)
		}
	}
	if f := NewFetcher(FetchParts{}); f.room.most != maxTogether || f.turns.most != mostAtOnce {
		t.Errorf("a server has %d bytes and %d turns", f.room.most, f.turns.most)
	}
}
