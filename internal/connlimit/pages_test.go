package connlimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reader is the reader of a page: it takes a part of 4 KiB each time that pause has passed, none if that is 0.
type reader struct {
	pause   time.Duration
	gone    chan struct{}
	aborted sync.Once
}

func newReader(pause time.Duration) *reader { return &reader{pause: pause, gone: make(chan struct{})} }

func (r *reader) abort() { r.aborted.Do(func() { close(r.gone) }) }

func (r *reader) isGone() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

var errGone = errors.New("the reader is gone")

func (r *reader) Write(text []byte) (int, error) {
	var taken <-chan time.Time
	if r.pause > 0 {
		taken = time.After(r.pause)
	}
	select {
	case <-taken:
		return len(text), nil
	case <-r.gone:
		return 0, errGone
	}
}

// serve writes a page of some bytes in the background, once there is a place.
func (r *reader) serve(t *testing.T, pages *Pages, share string, bytes int) {
	t.Helper()
	page := pages.Begin(t.Context(), share, r.abort)
	if page == nil {
		t.Fatalf("a page of %s has no place", share)
	}
	context.AfterFunc(t.Context(), r.abort) // the test is over
	go func() {
		defer page.End()
		_, _ = page.Writer(r).Write(make([]byte, bytes))
	}()
	synctest.Wait()
}

func silentReaders(t *testing.T, pages *Pages, shares ...string) (all []*reader) {
	t.Helper()
	for _, share := range shares {
		r := newReader(0)
		r.serve(t, pages, share, 1<<20)
		all = append(all, r)
	}
	return all
}

// beginsAfter wants that a request gets a place after a time, or none.
func beginsAfter(t *testing.T, pages *Pages, share string, want time.Duration, place bool) {
	t.Helper()
	began := time.Now()
	page := pages.Begin(t.Context(), share, func() { t.Errorf("the page of %s is aborted", share) })
	if took := time.Since(began); took != want || (page != nil) != place {
		t.Errorf("%s waits for %v, and has a place: %v; want %v and %v", share, took, page != nil, want, place)
	}
	if page != nil {
		page.End()
	}
	synctest.Wait()
}

func countGone(all []*reader) (n int) {
	for _, r := range all {
		if r.isGone() {
			n++
		}
	}
	return n
}

// Readers who don't read are cut off if others wait, and not before.
func TestSilentReadersAreCutOffForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := NewPages(6, 2)
		silent := silentReaders(t, pages, "a", "a", "b", "b", "c", "c")
		time.Sleep(time.Hour)
		if n := countGone(silent); n > 0 {
			t.Errorf("%d readers are cut off, and nobody waits", n)
		}
		beginsAfter(t, pages, "scraper", 0, true)
		if n := countGone(silent); n != len(silent) {
			t.Errorf("%d readers are cut off, want all", n)
		}
		silentReaders(t, pages, "a", "a", "b", "b", "c", "c")
		beginsAfter(t, pages, "scraper", readPatience+lookForSlow, true)
		if free := pages.turns.Free(); free != 6 {
			t.Errorf("%d places are free at the end, of 6", free)
		}
	})
}

// A scraper gets a place beside 16 addresses that ask again whenever they are cut off.
func TestACrowdOfSilentReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addresses = 16
		pages := NewPages(6, 2)
		ctx, end := context.WithCancel(t.Context())
		var crowd sync.WaitGroup
		for i := range addresses * 8 {
			crowd.Go(func() {
				for ctx.Err() == nil {
					r := newReader(0)
					page := pages.Begin(ctx, fmt.Sprint(i%addresses), r.abort)
					if page == nil {
						continue
					}
					stop := context.AfterFunc(ctx, r.abort)
					_, _ = page.Writer(r).Write(make([]byte, 1))
					stop()
					page.End()
				}
			})
		}
		for try := range 20 {
			time.Sleep(time.Duration(try) * 700 * time.Millisecond)
			page := pages.Begin(t.Context(), "scraper", func() {})
			if page == nil {
				t.Fatalf("try %d: a scraper has no place", try)
			}
			page.End()
		}
		end()
		crowd.Wait()
	})
}

// A share that has all its places waits for one of its own; silent readers of others stay while places are free.
func TestAShareWaitsForItsOwnPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := NewPages(6, 2)
		own, other := silentReaders(t, pages, "a", "a"), silentReaders(t, pages, "b", "b")
		time.Sleep(time.Hour)
		beginsAfter(t, pages, "a", 0, true)
		if countGone(own) != 2 || countGone(other) != 0 {
			t.Errorf("of two silent readers each, %d of the share and %d of another are cut off", countGone(own), countGone(other))
		}
		beginsAfter(t, pages, "scraper", 0, true)
		if countGone(other) != 0 {
			t.Error("a silent reader is cut off, though a place was free")
		}
	})
}

// A reader that takes 4 MiB a second is never cut off, and one that takes a byte now and then is.
func TestSlowReaders(t *testing.T) {
	for name, test := range map[string]struct {
		pause time.Duration // for each 4 KiB
		place bool
		waits time.Duration
	}{
		"fair":                 {time.Second / 1024, false, PageWait},
		"drips":                {1900 * time.Millisecond, true, 2250 * time.Millisecond}, // 1.9 s, and more than 0.1 s
		"half as fast as fair": {1875 * time.Microsecond, true, 4250 * time.Millisecond}, // t = 2 s + t/2, or some more
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pages, r := NewPages(1, 1), newReader(test.pause)
				r.serve(t, pages, "slow", 40<<20)
				beginsAfter(t, pages, "scraper", test.waits, test.place)
				if r.isGone() != test.place {
					t.Errorf("the reader is cut off: %v", r.isGone())
				}
			})
		})
	}
}

// Requests leave after PageWait, or when their client does, and no place is lost with them.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := NewPages(1, 1)
		held := pages.Begin(t.Context(), "a", func() {}) // a page that takes long to make
		beginsAfter(t, pages, "b", PageWait, false)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		began := time.Now()
		if pages.Begin(ctx, "b", func() {}) != nil || time.Since(began) != time.Second {
			t.Errorf("a request whose client is gone waits for %v", time.Since(began))
		}
		held.End()
		held.End()
		beginsAfter(t, pages, "b", 0, true)
		if pages.turns.Free() != 1 || pages.waiting.Len() != 0 {
			t.Errorf("%d places are free at the end, and %d shares wait", pages.turns.Free(), pages.waiting.Len())
		}
	})
}

// However many requests of one share wait, the first one of another share is next after one of them.
func TestPagesOfSharesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := NewPages(1, 1)
		held := pages.Begin(t.Context(), "first", func() {})
		var got []string
		var waiting sync.WaitGroup
		for _, share := range []string{"a", "a", "a", "b", "c"} {
			waiting.Go(func() {
				page := pages.Begin(t.Context(), share, func() {})
				got = append(got, share)
				page.End()
			})
			synctest.Wait()
		}
		held.End()
		waiting.Wait()
		if want := []string{"a", "b", "c", "a", "a"}; !slices.Equal(got, want) {
			t.Errorf("turns %q, want %q", got, want)
		}
	})
}

// Requests that wait keep their connections, so there are few: in the first half of the places as many of a share as it may
// have, and then one of each.
func TestFewRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := NewPages(1, 1)
		held := pages.Begin(t.Context(), "first", func() {})
		ctx, leave := context.WithCancel(t.Context())
		for i := range maxWaiting {
			share := i / maxWaitingEach
			if i >= maxWaiting/2 {
				share = i
			}
			go pages.Begin(ctx, fmt.Sprint(share), func() {})
			synctest.Wait()
			if i == maxWaitingEach-1 || i >= maxWaiting/2 {
				beginsAfter(t, pages, fmt.Sprint(share), 0, false)
			}
		}
		beginsAfter(t, pages, "late", 0, false)
		leave()
		synctest.Wait()
		beginsAfter(t, pages, "late", PageWait, false)
		held.End()
	})
}
