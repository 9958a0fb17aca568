package scrape

import (
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
				w.reading.Lock()
				defer w.reading.Unlock()
				if w.reading.text == nil {
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
		if w.fetcher.room.kept != 0 || len(w.fetcher.room.of) != 0 || w.reading.text != nil {
			t.Errorf("%d bytes are kept, of %v; reader: %v", w.fetcher.room.kept, w.fetcher.room.of, w.reading.text != nil)
		}
	})
}

// Each pod may keep an equal share, whatever others keep.
func TestEqualShares(t *testing.T) {
	var r room
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
