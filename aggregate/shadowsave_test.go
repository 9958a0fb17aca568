package aggregate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
		copied.must(s.ReplaceBlock(i, f.AppendBlockNames(nil, i), f.AppendState(nil, i)))
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
		late.must(late.AdvanceOf(shadow.AppendClock(nil), 0, said))
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
