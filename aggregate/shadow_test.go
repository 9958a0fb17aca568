package aggregate

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// newOrigin is newFixture for a table that may be one of several replicas.
func newOrigin(t testing.TB, replicated bool) *fixture {
	c := DefaultConfig()
	c.Replicated = replicated
	return newFixtureOf(t, c)
}

// follower is a shadow that follows a fixture's table, and reads like a table of its own.
type follower struct {
	*Shadow
	t      testing.TB
	origin *fixture
}

func newFollower(t testing.TB, origin *fixture) *follower {
	s := NewShadow(origin.config, quiet())
	f := &follower{s, t, origin}
	f.must(s.Begin(origin.AppendClock(nil)))
	return f
}

func (f *follower) must(err error) {
	f.t.Helper()
	must(f.t, err)
}

// reader returns a fixture that asks the shadow.
func (f *follower) reader() *fixture { return &fixture{Table: f.Table(), t: f.t} }

// follow brings the shadow up to date by deltas. again applies each delta twice.
func (f *follower) follow(again bool) {
	f.t.Helper()
	for i := range f.origin.Blocks() {
		delta := f.origin.AppendDelta(nil, i)
		f.must(f.ApplyDelta(i, delta))
		if again {
			f.must(f.ApplyDelta(i, delta))
		}
	}
	f.advance()
}

func (f *follower) advance() {
	f.t.Helper()
	f.must(f.Advance(f.origin.AppendClock(nil), 0))
}

// copyAll brings the shadow up to date by whole blocks.
func (f *follower) copyAll() {
	f.t.Helper()
	f.advance()
	for i := range f.origin.Blocks() {
		state := f.origin.AppendBlockState(nil, i)
		f.must(f.ReplaceBlock(i, f.origin.AppendBlockNames(nil, i), state))
	}
}

// dateLines are the arrival dates of the newest samples.
func (f *fixture) dates() (all []string) {
	for _, asked := range []string{"c:total", "g", "h", "rc:total"} {
		points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)})
		if err != nil {
			all = append(all, asked+": "+err.Error())
		}
		for _, p := range points {
			all = append(all, fmt.Sprintf("%s of %s: %s", asked, p.Object.Name, p.Time.Round(0)))
		}
	}
	return all
}

func (f *fixture) everything() string {
	all := append([]string{f.all(), f.answers()}, f.dates()...)
	for _, asked := range []string{"e:count:10s", "e:total", "eg", "short:total"} {
		all = append(all, asked+": "+f.askExternal("ns", asked))
	}
	return strings.Join(all, "\n")
}

// uncaused cuts the cause of a removal, which the origin alone knows.
func uncaused(answer string) string {
	before, _, _ := strings.Cut(answer, "; last seen")
	return before
}

// compare fails unless the shadow answers as the origin does.
func (f *follower) compare(when string) {
	f.t.Helper()
	f.compareAs(when, uncaused)
}

// compareAs is compare for answers in some form.
func (f *follower) compareAs(when string, form func(answer string) string) {
	f.t.Helper()
	want, got := strings.Split(f.origin.everything(), "\n"), strings.Split(f.reader().everything(), "\n")
	for i := range want {
		if form(want[i]) != form(got[i]) {
			f.t.Errorf("%s: origin\n  %s\nshadow\n  %s", when, want[i], got[i])
		}
	}
	if f.Series() != f.origin.Series() {
		f.t.Errorf("%s: %d series, the origin has %d", when, f.Series(), f.origin.Series())
	}
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// churn pushes, ends and deletes series of all kinds, so that places are reused.
func (f *fixture) churn(r *rand.Rand, p *pushes) {
	f.traffic(r)
	f.apply(p.next()...)
	f.push(fmt.Sprintf("e:%d|c|#ns:ns,q:%d", r.IntN(9), r.IntN(30)), fmt.Sprintf("eg:+%d|g|#ns:ns,q:%d", r.IntN(9), r.IntN(3)),
		fmt.Sprintf("h:9007199254740993|g|#pod:p%d,ns:ns,k:1", r.IntN(3)), fmt.Sprintf("g:-%d|g|#pod:p%d,ns:ns,k:2", r.IntN(50), r.IntN(5)))
	brief := sample(fmt.Sprintf("short:1|c|#ns:ns,q:%d", r.IntN(40)))
	brief.TTL = time.Duration(1+r.IntN(3)) * time.Second
	f.apply(brief)
	switch r.IntN(12) {
	case 0:
		f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: fmt.Sprintf("p%d", r.IntN(5)), Expression: metric.ParseExpression("t")})
	case 1:
		f.Delete(metric.Query{Namespace: "ns", Expression: metric.ParseExpression("e")})
	case 2:
		f.End(metric.Object{Resource: "pods", Namespace: "ns", Name: fmt.Sprintf("p%d", r.IntN(5))}, "c")
	}
}

// A shadow that follows by deltas answers as its origin does after every flush.
func TestShadowFollows(t *testing.T) {
	for i, c := range []struct {
		name  string
		again bool
		whole int // one flush in so many is followed by a whole block
		lost  int // one delta in so many is lost, and a whole block follows
	}{{"deltas", false, 0, 0}, {"doubled deltas", true, 0, 0}, {"whole blocks too", false, 7, 0}, {"lost deltas", false, 0, 5}} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(size(5, 1, 1)) {
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(seed, 21))
					p := pushesOf(r)
					f := newOrigin(t, (i+int(seed))%2 == 1).running()
					time.Sleep(2*time.Minute + 123_400*time.Microsecond)
					shadow := newFollower(t, f)
					flushes := size(120, 120, 40)
					for i := range flushes {
						f.churn(r, p)
						time.Sleep(time.Duration(300+r.IntN(400)) * time.Millisecond)
						if i == flushes/2 {
							time.Sleep(70 * time.Second) // series of short lifetimes end
						}
						switch {
						case c.lost > 0 && r.IntN(c.lost) == 0:
							for b := range f.Blocks() {
								f.AppendDelta(nil, b)
							}
							time.Sleep(time.Second)
							shadow.copyAll()
							shadow.follow(false)
						case c.whole > 0 && r.IntN(c.whole) == 0:
							shadow.follow(false)
							shadow.copyAll()
						default:
							shadow.follow(c.again)
						}
						shadow.compare(fmt.Sprintf("seed %d, flush %d", seed, i))
					}
				})
			}
		})
	}
}

// A shadow enters and leaves each series once, and its end leaves all.
func TestShadowAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		time.Sleep(2*time.Minute + 123_400*time.Microsecond)
		s, l, seen := NewShadow(DefaultConfig(), quiet()), &ledger{series: map[string]int{}}, &witnessed{}
		s.SetAdmission(l)
		s.SetObserver(seen)
		shadow := &follower{s, t, f}
		shadow.must(s.Begin(f.AppendClock(nil)))
		sum := func() (n int) {
			for _, held := range l.series {
				n += held
			}
			return n
		}
		r := rand.New(rand.NewPCG(1, 2))
		p := pushesOf(r)
		for range 50 {
			f.churn(r, p)
			time.Sleep(time.Second)
			shadow.follow(false)
			if sum() != f.Series() || s.Series() != f.Series() {
				t.Fatalf("%d entered, %d series, origin %d", sum(), s.Series(), f.Series())
			}
		}
		s.End()
		if sum() != 0 || s.Series() != 0 {
			t.Errorf("after the end: %d entered, %d series", sum(), s.Series())
		}
	})
}

// Readers of a shadow see each value before or after a delta, never between, and never another
// series' value, while series die, move and are replaced.
func TestShadowReadersDuringReplay(t *testing.T) {
	f := newFixture(t)
	s := NewShadow(DefaultConfig(), quiet())
	shadow := &follower{s, t, f}
	shadow.must(s.Begin(f.AppendClock(nil)))
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	ask := func(asked string) ([]metric.Point, error) {
		return s.Table().Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(asked)})
	}
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if points, err := ask("sevens:total"); err == nil {
					for _, p := range points {
						if n, ok := p.Value.Int64(); !ok || n == 0 || n%7 != 0 {
							t.Errorf("%s: %v, want a multiple of 7", p.Object.Name, p.Value)
						}
					}
				}
				for _, asked := range []string{"sevens:count:10s", "elevens:p50", "elevens:count", "set", "level:mean", "halves:total"} {
					points, _ := ask(asked)
					for _, p := range points {
						if v := p.Value.Float64(); asked == "elevens:p50" && (v < 10.5 || v > 11.5) || asked == "halves:total" && v != float64(int(v)) {
							t.Errorf("%s of %s: %v", asked, p.Object.Name, v)
						}
					}
				}
				_ = s.Bytes()
				s.Table().Listed(10)
			}
		})
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range size(120, 120, 60) {
		for range 30 {
			pod := fmt.Sprintf("|#pod:p%d,ns:ns,k:%d", r.IntN(8), r.IntN(3))
			f.push("sevens:7|c"+pod, "elevens:11|ms"+pod, fmt.Sprintf("set:%d|s%s", r.IntN(100), pod), fmt.Sprintf("level:%d|g%s", r.IntN(9), pod), "halves:0.5|c"+pod, "halves:0.5|c"+pod)
		}
		if r.IntN(4) == 0 {
			for _, name := range []string{"sevens", "elevens", "set", "level", "halves"} {
				f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: fmt.Sprintf("p%d", r.IntN(8)), Expression: metric.ParseExpression(name)})
			}
			f.sweep() // frees places, so other series take them
		}
		switch {
		case i%50 == 49:
			shadow.must(s.Begin(f.AppendClock(nil)))
			shadow.copyAll()
		case i%10 == 9:
			shadow.copyAll()
		default:
			shadow.follow(false)
		}
	}
	stop()
	readers.Wait()
	shadow.follow(false)
	want, got := f.ask("sevens:total"), shadow.reader().ask("sevens:total")
	if want != got {
		t.Errorf("shadow %s, origin %s", got, want)
	}
}

// totals returns the totals of all counters of a table, by identity.
func (f *fixture) totals() map[string]string {
	all := map[string]string{}
	for name := range 40 {
		points, err := f.External(metric.Query{Namespace: "ns", Expression: metric.ParseExpression(fmt.Sprintf("m%d:total", name))})
		if err != nil {
			all[fmt.Sprint(name)] = uncaused(err.Error())
		}
		for _, p := range points {
			all[fmt.Sprint(name, p.Labels)] = print(p.Value)
		}
	}
	return all
}

// Blocks are copied and followed independently: their messages come in any order, and some are
// lost. Series die and are born again in another block meanwhile, or as another kind. Once every
// block is up to date, the shadow equals its origin.
func TestShadowOfManyBlocks(t *testing.T) {
	for seed := range uint64(size(6, 1, 1)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 22))
			f := newFixture(t).running()
			time.Sleep(2*time.Minute + 123_400*time.Microsecond)
			shadow := newFollower(t, f)
			gap := map[int]bool{} // blocks of which a delta was lost
			flush := func(lose bool) {
				shadow.advance()
				deltas := map[int][]byte{} // ranges in random order
				for i := range f.Blocks() {
					deltas[i] = f.AppendDelta(nil, i)
				}
				for i, delta := range deltas {
					switch {
					case lose && r.IntN(6) == 0:
						gap[i] = true
					case !gap[i]:
						shadow.must(shadow.ApplyDelta(i, delta))
					case !lose || r.IntN(2) == 0:
						delete(gap, i)
						state := f.AppendBlockState(nil, i)
						shadow.must(shadow.ReplaceBlock(i, f.AppendBlockNames(nil, i), state))
					}
				}
			}
			for round := range size(12, 12, 4) {
				for range 25 {
					for range 150 {
						kind := "c"
						if r.IntN(40) == 0 {
							kind = "g"
						}
						s := sample(fmt.Sprintf("m%d:%d|%s|#ns:ns,k:%d", r.IntN(40), 1+r.IntN(9), kind, r.IntN(100)))
						s.TTL = time.Duration(2+r.IntN(30)) * time.Second
						f.w.Online()
						f.w.Apply(s) // a name of another kind is rejected
						f.w.Offline()
					}
					if r.IntN(3) == 0 {
						f.Delete(metric.Query{Namespace: "ns", Expression: metric.ParseExpression(fmt.Sprintf("m%d", r.IntN(40)))})
					}
					time.Sleep(time.Second)
					flush(true)
					shadow.sound(t)
				}
				flush(false)
				flush(false)
				want, got := f.totals(), shadow.reader().totals()
				for name := range want {
					if got[name] != want[name] {
						t.Errorf("seed %d, round %d: %s is %q, want %q", seed, round, name, got[name], want[name])
					}
				}
				if len(got) != len(want) || shadow.Series() != f.Series() || len(shadow.waiting) > 0 {
					t.Fatalf("seed %d, round %d: %d totals, want %d; %d series, want %d; %d waiting", seed, round, len(got), len(want), shadow.Series(), f.Series(), len(shadow.waiting))
				}
				if t.Failed() {
					t.FailNow()
				}
			}
			if f.Blocks() < 2 {
				t.Error("one block only")
			}
		})
	}
}

// An origin that restarts goes on in the shadow that it had, block by block, and rates of clients
// that push at intervals stay those of the origin.
func TestShadowOfARestartedOrigin(t *testing.T) {
	for seed := range uint64(size(4, 2, 1)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 23))
			p := pushesOf(r)
			f, disk := newOrigin(t, true).running(), newSaved()
			time.Sleep(2*time.Minute + 123_400*time.Microsecond)
			shadow := newFollower(t, f)
			work := func(seconds int) {
				for i := range seconds {
					if i%3 == 0 {
						f.push("c:30|c|#pod:slow,ns:ns", "t:30|ms|#pod:slow,ns:ns")
						f.traffic(r)
						f.apply(p.next()...)
					}
					time.Sleep(time.Second)
					shadow.advance()
					for b := range f.Blocks() {
						delta := f.AppendDelta(nil, b)
						disk.deltas[b] = append(disk.deltas[b], delta)
						shadow.must(shadow.ApplyDelta(b, delta))
					}
					shadow.compare(fmt.Sprintf("seed %d, second %d", seed, i))
				}
			}
			work(40)
			disk.clock = f.AppendClock(nil)
			work(1) // not on disk
			time.Sleep(time.Duration(r.IntN(40)) * time.Second)
			f = newOrigin(t, true)
			shadow.must(disk.into(f.Table))
			shadow.origin = f.running()
			time.Sleep(1500 * time.Millisecond)
			shadow.copyAll()
			shadow.follow(false)
			shadow.compare(fmt.Sprintf("seed %d, after the restart", seed))
			work(40)
		})
	}
}

// A shadow of a shadow answers as the origin does, also once it follows the origin's own deltas.
func TestShadowOfAShadow(t *testing.T) {
	for seed := range uint64(size(5, 2, 1)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 22))
			p := pushesOf(r)
			f := newOrigin(t, true).running()
			time.Sleep(2*time.Minute + 123_400*time.Microsecond)
			first := newFollower(t, f)
			for i := range 60 {
				f.churn(r, p)
				time.Sleep(time.Duration(300+r.IntN(400)) * time.Millisecond)
				first.follow(false)
				if i%7 == 0 {
					first.copyAll()
				}
				if i%6 > 0 {
					continue
				}
				second := first.shadowed()
				second.compareAs(fmt.Sprintf("seed %d, flush %d", seed, i), unordered)
				if !bytes.Equal(second.AppendClock(nil), first.AppendClock(nil)) {
					t.Fatal("the clocks differ")
				}
				for range 3 {
					f.churn(r, p)
					time.Sleep(500 * time.Millisecond)
					for block := range f.Blocks() {
						delta := f.AppendDelta(nil, block)
						first.must(first.ApplyDelta(block, delta))
						second.must(second.ApplyDelta(block, delta))
					}
					first.advance()
					second.advance()
					second.compareAs(fmt.Sprintf("seed %d, deltas after flush %d", seed, i), unordered)
				}
			}
		})
	}
}

// unordered sorts an answer's items: their order is that in which they came. Removals from before a
// shadow began are known to the origin alone.
func unordered(answer string) string {
	before, _, _ := strings.Cut(uncaused(answer), ": none was ever received")
	items := strings.Fields(before)
	slices.Sort(items)
	return strings.Join(items, " ")
}

// shadowed returns another shadow that replays what this one saves.
func (f *follower) shadowed() *follower {
	f.t.Helper()
	s := NewShadow(f.config, quiet())
	copied := &follower{s, f.t, f.origin}
	copied.must(s.Begin(f.AppendClock(nil)))
	for i := range f.Blocks() {
		copied.must(s.ReplaceBlock(i, f.AppendBlockNames(nil, i), f.AppendBlockState(nil, i)))
	}
	return copied
}

// A shadow that learns of an origin's silence late stands, and runs, as one that was there.
func TestShadowOfASilentOrigin(t *testing.T) {
	followed(t, func(f *fixture, shadow *follower) {
		for range 20 {
			f.push("c:1|c|#pod:a,ns:ns")
			time.Sleep(time.Second)
			shadow.follow(false)
		}
		said := time.Now()
		time.Sleep(30 * time.Second)
		late := shadow.shadowed()
		late.must(late.AdvanceOf(shadow.AppendClock(nil), 0, said, false))
		for range 10 {
			want, got := shadow.Table().Clock.Course(time.Now(), shadow.Table().Clock.Now()), late.Table().Clock.Course(time.Now(), late.Table().Clock.Now())
			if got.Known != want.Known || got.Standing != want.Standing || late.At() != shadow.At() {
				t.Errorf("known to %v, standing %v, at %s; want %v, %v, %s", got.Known, got.Standing, late.At(), want.Known, want.Standing, shadow.At())
			}
			if !late.HeardAt().Equal(said) {
				t.Errorf("heard at %s, want %s", late.HeardAt(), said)
			}
			if time.Sleep(10 * time.Second); time.Since(said) == time.Minute {
				shadow.LetRun(time.Now())
				late.LetRun(said.Add(time.Minute))
			}
		}
	})
}
