package aggregate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A sentFrame is a frame that its sender keeps until it is on disk.
type sentFrame struct {
	feed, number uint64
	lines        []string
	made         time.Time
}

// fed is a table that frames come to, and its disk.
type fed struct {
	*fixture
	r    *rand.Rand
	disk *saved
	// kept are the frames that are not on disk, in the order of their making.
	kept []sentFrame
	next map[uint64]uint64
	// waits are the changes, lines of frames, that wait for their sender.
	waits []waitingLine
}

type waitingLine struct {
	frame sentFrame
	index int
}

// make makes a frame of a feed: of counters, gauges that are moved, timers and sets of a few of many pods.
func (f *fed) make(feed uint64) sentFrame {
	f.next[feed]++
	frame := sentFrame{feed: feed, number: f.next[feed], made: time.Now()}
	for range 30 {
		// Pods of one feed and of both; those that no frame named before are born in any block.
		pod := fmt.Sprintf("|#pod:p%d,ns:ns", f.r.IntN(400)+int(feed)*200)
		frame.lines = append(frame.lines, fmt.Sprintf("c:%d|c%s", f.r.IntN(100), pod), "f:0.25|c"+pod, fmt.Sprintf("g:+%d|g%s", f.r.IntN(9), pod),
			fmt.Sprintf("t:%d|ms|@0.5%s", f.r.IntN(1000), pod), fmt.Sprintf("s:%d|s%s", f.r.IntN(300), pod))
	}
	return frame
}

// applyFrames applies frames in one section.
func (f *fixture) applyFrames(frames ...sentFrame) {
	f.applyUnless(func(waitingLine) bool { return false }, frames...)
}

// applyUnless is applyFrames; some lines wait.
func (f *fixture) applyUnless(waits func(waitingLine) bool, frames ...sentFrame) {
	f.w.Online()
	f.w.EnterFrames()
	for _, frame := range frames {
		f.w.Frame(frame.feed, frame.number)
		for i := range frame.lines {
			if f.w.Change(uint32(i)); waits(waitingLine{frame, i}) {
				f.w.Wait()
			} else {
				f.applyLine(waitingLine{frame, i})
			}
		}
	}
	f.w.LeaveFrames()
	f.w.Offline()
}

func (f *fixture) applyLine(l waitingLine) {
	s := sample(l.frame.lines[l.index])
	if age := time.Since(l.frame.made); age > f.Clock.Tick {
		s.Arrived = l.frame.made.UnixNano()
	}
	if r := f.w.Apply(s); r != metric.Applied {
		f.t.Fatalf("%s: rejected: %s", l.frame.lines[l.index], r)
	}
}

// some lets some lines wait.
func (f *fed) some(l waitingLine) bool {
	if f.r.IntN(20) > 0 {
		return false
	}
	f.waits = append(f.waits, l)
	return true
}

// settle applies some of the lines that wait, or all.
func (f *fed) settle(all bool) {
	f.w.Online()
	f.w.EnterFrames()
	left := f.waits[:0]
	for _, l := range f.waits {
		f.w.Frame(l.frame.feed, l.frame.number)
		if f.w.Change(uint32(l.index)); all || f.r.IntN(3) == 0 {
			f.applyLine(l)
		} else {
			f.w.Wait()
			left = append(left, l)
		}
	}
	f.waits = left
	f.w.LeaveFrames()
	f.w.Offline()
}

// holds reports whether a line of a frame waits.
func (f *fed) holds(frame sentFrame) bool {
	return slices.ContainsFunc(f.waits, func(l waitingLine) bool { return l.frame.feed == frame.feed && l.frame.number <= frame.number })
}

// flush saves some blocks, with frames in between, up to one at which the process may be killed.
func (f *fed) flush(during func()) (whole bool) {
	cut := f.r.IntN(2 * max(f.Blocks(), 1))
	for i := range f.Blocks() {
		if i == cut {
			return false
		}
		if delta := f.AppendDelta(nil, i); len(delta) > 0 {
			f.disk.deltas[i] = append(f.disk.deltas[i], delta)
		}
		if f.r.IntN(2) == 0 {
			during()
			f.AppendBlockState(nil, f.r.IntN(f.Blocks())) // for another replica, not for the disk
		}
		if f.r.IntN(3) == 0 {
			if f.NamesChanged(i) || f.disk.names[i] == nil {
				f.disk.state[i] = f.AppendState(nil, i)
				f.disk.names[i] = f.AppendNames(nil, i)
			} else {
				f.disk.state[i] = f.AppendState(nil, i)
			}
			f.disk.deltas[i] = nil
		}
		f.disk.clock = f.AppendClock(nil)
	}
	return true
}

// again restores the table and sends the kept frames again.
func (f *fed) again(t *testing.T) {
	f.fixture, f.waits = f.disk.restore(t), nil
	resend := map[uint64][]sentFrame{}
	for _, frame := range f.kept {
		resend[frame.feed] = append(resend[frame.feed], frame)
	}
	for feed := uint64(1); feed <= 2; feed++ {
		frames, restored, n := resend[feed], f.Restored(feed), 0
		for n < len(frames) && frames[n].number <= restored {
			n++
		}
		f.applyFrames(frames[:n]...)
		for _, frame := range frames[n:] {
			f.applyUnless(f.some, frame)
		}
	}
}

// Whatever a flush was in the middle of when the process was killed, each sample of a frame counts once.
func TestFramesCountOnceOverKills(t *testing.T) {
	for seed := range uint64(size(20, 6, 2)) {
		synctest.Test(t, func(t *testing.T) {
			f := &fed{fixture: newFixture(t), r: rand.New(rand.NewPCG(seed, 1)), disk: newSaved(), next: map[uint64]uint64{}}
			once, kills := newFixture(t), 0
			f.disk.clock = f.AppendClock(nil)
			send := func() {
				frame := f.make(uint64(1 + f.r.IntN(2)))
				f.kept = append(f.kept, frame)
				f.applyUnless(f.some, frame)
				once.applyFrames(frame)
				f.settle(false)
				time.Sleep(100 * time.Millisecond)
			}
			for range 60 {
				send()
				before, held := len(f.kept), f.kept
				held = slices.DeleteFunc(slices.Clone(held), func(frame sentFrame) bool { return !f.holds(frame) })
				if f.flush(send) {
					f.kept = append(held, f.kept[before:]...) // in the order of each feed
				} else {
					kills++
					f.disk.uptime = window.Uptime{}
					time.Sleep(time.Duration(f.r.IntN(3)) * time.Second)
					f.again(t)
				}
				if f.r.IntN(4) > 0 {
					continue
				}
				f.settle(true)
				checkBalance(t, f)
				for _, asked := range []string{"c:total", "f:total", "g", "t:total", "t:sum:1h", "t:count:1h", "c:count:1h"} {
					if got, want := f.ask(asked), once.ask(asked); got != want {
						t.Fatalf("seed %d, after %d kills: %s reads\n%s, want\n%s", seed, kills, asked, got, want)
					}
				}
			}
			if kills < 5 || f.Blocks() < 2 {
				t.Errorf("seed %d: %d kills, %d blocks", seed, kills, f.Blocks())
			}
		})
	}
}

// The time in which a table was down is receiving time if a feed was connected: the samples of meanwhile come.
func TestRateOfAFeedAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fed{fixture: newFixture(t), disk: newSaved(), next: map[uint64]uint64{}}
		frame := func(n int) sentFrame {
			f.next[1]++
			return sentFrame{1, f.next[1], []string{fmt.Sprintf("c:%d|c|#pod:a,ns:ns", n)}, time.Now()}
		}
		for range 600 {
			f.applyFrames(frame(1))
			f.Roll()
			time.Sleep(100 * time.Millisecond)
		}
		f.disk.flush(f.Table, each)
		var missed []sentFrame
		var agent sync.WaitGroup
		agent.Go(func() {
			for range 80 {
				missed = append(missed, frame(1))
				time.Sleep(100 * time.Millisecond)
			}
		})
		time.Sleep(5 * time.Second) // down
		f.disk.uptime, f.disk.takes = window.Uptime{}, time.Second
		f.fixture = f.disk.restore(t)
		agent.Wait()
		for _, m := range missed {
			f.applyFrames(m)
		}
		for range 100 {
			f.applyFrames(frame(1))
			f.Roll()
			if got := f.value("c:count:10s"); got < 98 || got > 102 {
				t.Fatalf("%v in 10 s, want 100", got)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// The agents of one series tell of an outage one after the other: what one tells late counts in its time,
// though another has told of now.
func TestRateOfTwoFeedsAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fed{fixture: newFixture(t), disk: newSaved(), next: map[uint64]uint64{}}
		frame := func(feed uint64) sentFrame {
			f.next[feed]++
			return sentFrame{feed, f.next[feed], []string{"c:1|c|#pod:a,ns:ns", "t:5|ms|#pod:a,ns:ns"}, time.Now()}
		}
		for range 600 {
			f.applyFrames(frame(1), frame(2))
			f.Roll()
			time.Sleep(100 * time.Millisecond)
		}
		f.disk.flush(f.Table, each)
		var first, second []sentFrame
		for range 50 {
			first, second = append(first, frame(1)), append(second, frame(2))
			time.Sleep(100 * time.Millisecond)
		}
		f.disk.uptime = window.Uptime{}
		f.fixture = f.disk.restore(t)
		for range 5 {
			first = append(first, frame(1))
			for _, m := range first {
				f.applyFrames(m)
			}
			first = nil
			f.Roll()
			second = append(second, frame(2))
			time.Sleep(100 * time.Millisecond)
		}
		for _, m := range second {
			f.applyFrames(m)
		}
		for range 100 {
			f.applyFrames(frame(1), frame(2))
			f.Roll()
			for _, asked := range []string{"c:count:10s", "t:count:10s"} {
				if got := f.value(asked); got < 190 || got > 210 {
					t.Fatalf("%s is %v, want 200", asked, got)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// An outage that another table covered is none of receiving time: the series goes on where it was.
func TestACoveredOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fed{fixture: newFixture(t), disk: newSaved(), next: map[uint64]uint64{}}
		for range 600 {
			f.next[1]++
			f.applyFrames(sentFrame{1, f.next[1], []string{"c:1|c|#pod:a,ns:ns"}, time.Now()})
			f.Roll()
			time.Sleep(100 * time.Millisecond)
		}
		f.disk.flush(f.Table, each)
		saved := time.Now()
		time.Sleep(20 * time.Second)
		f.disk.uptime = window.Uptime{}
		f.disk.covered = func(since time.Time) bool { return since.Round(0).Equal(saved.Round(0)) }
		f.fixture = f.disk.restore(t)
		if got := f.value("c:count:10s"); got < 98 || got > 102 {
			t.Errorf("%v in 10 s, want 100", got)
		}
		if awaited := f.FeedsAwaited(); len(awaited) != 0 {
			t.Errorf("%v are awaited", awaited)
		}
	})
}

// Marks end an hour after the last frame, and with them the format that earlier versions do not read.
func TestMarksEnd(t *testing.T) {
	start(t, func(f *fixture) {
		format := func() byte { return f.AppendClock(nil)[0] }
		if format() != formatVersion {
			t.Errorf("format %d without frames", format())
		}
		f.applyFrames(sentFrame{7, 1, []string{"c:1|c|#pod:p0,ns:ns"}, time.Now()})
		if format() != fedFormat {
			t.Errorf("format %d with frames", format())
		}
		time.Sleep(feedLife + time.Minute) // the roller sweeps
		if format() != formatVersion || len(f.blocks.at[0].Load().feeds.appendAll(nil, &f.frames)) > 0 {
			t.Errorf("format %d after the end of the feed", format())
		}
	})
}

// A place that another series has since the restore includes no frame.
func TestAPlaceThatIsUsedAgainIncludesNoFrame(t *testing.T) {
	start(t, func(f *fixture) {
		disk, frame := newSaved(), sentFrame{7, 1, []string{"c:5|c|#pod:p0,ns:ns"}, time.Now()}
		f.applyFrames(frame)
		disk.flush(f.Table, each)
		again := disk.restore(t)
		again.applyFrames(frame)
		again.want("c:total", "p0=5")
		again.End(metric.Object{Resource: "pods", Namespace: "ns", Name: "p0"}, "c")
		again.sweep()
		again.sweep()
		again.applyFrames(frame)
		again.want("c:total", "p0=5")
		if again.Series() != 1 || again.blocks.made.Load() != 1 {
			t.Errorf("%d series", again.Series())
		}
	})
}

// A clock that is saved while the first feed comes, or the last one is forgotten, is of one format.
func TestClockWhileFeedsComeAndGo(t *testing.T) {
	f := newFixture(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := f.NewWriter()
		defer w.Close()
		for i := range uint64(200_000) {
			w.EnterFrames()
			w.Frame(i, 1)
			w.LeaveFrames()
			f.frames.mu.Lock()
			clear(f.frames.feeds)
			f.frames.mu.Unlock()
		}
	}()
	for {
		if _, err := readClock(f.AppendClock(nil)); err != nil {
			t.Error(err)
			<-done
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// A change of a frame may wait for its sender while the rest of the frame, and of its block, is saved. When
// the frame comes again, it counts.
func TestAChangeThatWaitedOverAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fed{fixture: newFixture(t), disk: newSaved(), next: map[uint64]uint64{}}
		known, waits := "c:1|c|#pod:a,ns:ns", "c:10|c|#pod:a,ns:ns"
		frame := sentFrame{1, 1, []string{known, waits}, time.Now()}
		f.applyUnless(func(l waitingLine) bool { return l.index == 1 }, frame)
		f.disk.flush(f.Table, each)
		f.fixture = f.disk.restore(t)
		f.applyFrames(frame)
		f.want("c:total", "a=11")
		f.disk.flush(f.Table, each)
		f.fixture = f.disk.restore(t)
		f.applyFrames(frame)
		f.want("c:total", "a=11")
	})
}

// A feed that is forgotten and comes again: what its changes on disk said before is older than what waits now.
func TestAForgottenFeedComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fed{fixture: newFixture(t), disk: newSaved(), next: map[uint64]uint64{}}
		send := func(number uint64) (sent sentFrame) {
			sent = sentFrame{1, number, []string{"c:1|c|#pod:a,ns:ns", "c:10|c|#pod:a,ns:ns"}, time.Now()}
			f.applyUnless(func(l waitingLine) bool { return l.index == 1 }, sent)
			f.disk.flush(f.Table, never)
			return sent
		}
		f.waits = []waitingLine{{send(1), 1}}
		f.settle(true)
		f.disk.flush(f.Table, never)
		f.ForgetFeed(1)
		waits := send(2)
		f.fixture = f.disk.restore(t)
		f.applyFrames(waits)
		f.want("c:total", "a=22")
	})
}

// A flush takes the deltas of all blocks for replicas alone, because the disk is slow, and goes on with one of them. A change
// that has waited is on disk with its own block, or still said to wait.
func TestAChangeThatWaitedIsWrittenWithItsBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fed{fixture: newFixture(t), disk: newSaved(), next: map[uint64]uint64{}}
		frame := sentFrame{feed: 1, number: 1, made: time.Now()}
		for i := range kind.BlockSeries + 1 {
			frame.lines = append(frame.lines, fmt.Sprintf("c:1|c|#pod:p%d,ns:ns", i))
		}
		frame.lines = append(frame.lines, "c:10|c|#pod:p0,ns:ns")
		waits := waitingLine{frame, kind.BlockSeries + 1}
		f.applyUnless(func(l waitingLine) bool { return l.index == waits.index }, frame)
		f.disk.flush(f.Table, each)
		f.waits = []waitingLine{waits}
		f.settle(true)
		want := f.ask("c:total")
		for i := range f.Blocks() {
			f.AppendPublished(nil, i)
		}
		f.disk.state[1], f.disk.deltas[1] = f.AppendState(nil, 1), nil
		f.disk.clock = f.AppendClock(nil)
		f.fixture = f.disk.restore(t)
		f.applyFrames(frame)
		if got := f.ask("c:total"); got != want {
			t.Errorf("after a kill there is\n%.40s, want\n%.40s", got, want)
		}
	})
}

// However many blocks a flush saves, it writes the changes that wait once for each feed.
func TestAFlushSaysOnceWhatWaits(t *testing.T) {
	start(t, func(f *fixture) {
		const blocks, waits = 6, 500
		frame := sentFrame{feed: 1, made: time.Now()}
		for i := range blocks*kind.BlockSeries + waits {
			frame.lines = append(frame.lines, fmt.Sprintf("c:1|c|#pod:p%d,ns:ns", i))
		}
		all := frame.lines
		flush := func(lines int) (bytes int) {
			frame.number, frame.lines = frame.number+1, all[:lines]
			f.applyUnless(func(l waitingLine) bool { return l.index >= blocks*kind.BlockSeries }, frame)
			for i := range f.Blocks() {
				bytes += len(f.AppendDelta(nil, i))
			}
			return bytes
		}
		flush(blocks * kind.BlockSeries) // with births
		without := flush(blocks * kind.BlockSeries)
		if more := flush(len(all)) - without; more < waits || more > 4*waits {
			t.Errorf("%d changes that wait take %d bytes of a flush", waits, more)
		}
		if f.Blocks() < blocks {
			t.Fatalf("%d blocks", f.Blocks())
		}
	})
}
