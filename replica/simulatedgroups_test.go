package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/group"
)

const (
	simulatedGroups   = 2
	simulatedFamilies = 3
)

func familyName(family int) string { return fmt.Sprint("doc", family) }

// familyState is a family of a group, or its absence, as one change of the group left it.
type familyState struct {
	change int64 // the number of the change, which all series of the family have as value
	series byte  // bits of the series, by their label; 0: the change removed the family
	by     *process
	flush  int  // number of the flush that has the change
	lost   bool // the process was killed before that flush: others may have heard of the change, or not
}

// groupHistories are the states of each family of each group since the last quiet moment, oldest
// first. The first one is what all replicas showed then.
type groupHistories [simulatedGroups][simulatedFamilies][]familyState

// newGroupHistories are those of groups that were never pushed.
func newGroupHistories() (h groupHistories) {
	for i := range h {
		for j := range h[i] {
			h[i][j] = []familyState{{}}
		}
	}
	return h
}

// changeGroup replaces a group, changes some families of it, or deletes it.
func (r *tables) changeGroup(p *process) {
	time.Sleep(2 * time.Millisecond) // so there is one order
	r.samples++
	n := r.rng.IntN(simulatedGroups)
	key := group.Key{Labels: metric.NewLabels([]metric.Label{{Key: "job", Value: fmt.Sprint(n)}})}
	var pushed [simulatedFamilies]byte
	whole := true
	if r.rng.IntN(5) == 0 {
		p.groups.Delete(key, metric.Object{})
	} else {
		whole = r.rng.IntN(2) == 0
		for i := range pushed {
			pushed[i] = byte(r.rng.IntN(4))
		}
		p.pushGroup(key, whole, pushed, int64(r.samples))
	}
	for i, series := range pushed {
		if whole || series != 0 {
			r.groups[n][i] = append(r.groups[n][i], familyState{change: int64(r.samples), series: series, by: p, flush: p.flushed + 1})
		}
	}
}

// pushGroup pushes families whose series all have one value.
func (p *process) pushGroup(key group.Key, replace bool, pushed [simulatedFamilies]byte, value int64) {
	push := group.Push{Key: key, Replace: replace, Now: time.Now(), Applier: p.writer}
	for i, series := range pushed {
		f := exposition.Family{Name: familyName(i), Type: exposition.GaugeType}
		for bit := range 2 {
			if series>>bit&1 != 0 {
				labels := []metric.Label{{Key: "bit", Value: fmt.Sprint(bit)}}
				f.Metrics = append(f.Metrics, exposition.Metric{Labels: labels, Value: float64(value)})
			}
		}
		if series != 0 {
			push.Families = append(push.Families, f)
		}
	}
	p.writer.Online()
	defer p.writer.Offline()
	if o, rejection := p.groups.Push(&push); rejection != nil || o.Rejected != [metric.NumReasons]int{} {
		p.t.Fatal(o, rejection)
	}
}

// killed notes the changes that a process loses.
func (h *groupHistories) killed(p *process) {
	for i := range h {
		for j := range h[i] {
			for k := range h[i][j] {
				if s := &h[i][j][k]; s.by == p && s.flush > p.flushed {
					s.lost = true
				}
			}
		}
	}
}

// checkGroups checks that every replica has the newest document of each group, and serves its series
// and no others.
func (r *tables) checkGroups() {
	page := r.all[0].page()
	for _, p := range r.all[1:] {
		if got := p.page(); got != page {
			r.t.Fatalf("tick %d: %s has the groups %v, %s has %v", r.ticks, r.all[0].name, page, p.name, got)
		}
	}
	for i := range r.groups {
		for j := range r.groups[i] {
			all := r.groups[i][j]
			state := newest(all, page[i][j])
			if state == nil {
				r.t.Fatalf("tick %d: the groups are %v; %s of group %d is none of %+v", r.ticks, page, familyName(j), i, all)
			}
			r.groups[i][j] = []familyState{*state}
		}
	}
	for _, p := range r.all {
		r.checkServed(p)
	}
}

// newest returns the state that replicas show. It is the newest that was not lost, or a newer one that
// others have heard of; nil: it is none of them.
func newest(all []familyState, shown shownFamily) *familyState {
	for i := len(all) - 1; i >= 0; i-- {
		if s := &all[i]; s.series == shown.series && (s.series == 0 || s.change == shown.change) {
			return s
		}
		if !all[i].lost {
			break
		}
	}
	return nil
}

// checkServed checks the series that a replica serves. If the newest change was lost, only its document is
// left: its series are missing, or have the value of an older one.
func (r *tables) checkServed(p *process) {
	for j := range simulatedFamilies {
		served := p.served(j)
		for i := range r.groups {
			want, got := r.groups[i][j][0], served[i]
			for bit, value := range got {
				has := want.series>>bit&1 != 0
				if value != 0 && !has || !want.lost && has && value != want.change {
					r.t.Fatalf("tick %d: %s serves %v of %s in group %d, want %+v; %+v",
						r.ticks, p.name, got, familyName(j), i, want, p.replica.Origins())
				}
			}
		}
	}
}

// shownFamily is a family as a replica exposes it.
type shownFamily struct {
	change int64
	series byte
}

// page is the groups as a replica exposes them.
func (p *process) page() (page [simulatedGroups][simulatedFamilies]shownFamily) {
	for _, g := range p.groups.All(nil) {
		for f := range g.Families() {
			for i := range f.Metrics {
				group, bit := p.placeOf(metric.NewLabels(slices.Clone(f.Metrics[i].Labels)))
				for j := range simulatedFamilies {
					if familyName(j) == f.Name {
						s := &page[group][j]
						s.change, s.series = int64(f.Metrics[i].Value), s.series|1<<bit
					}
				}
			}
		}
	}
	return page
}

// served are the merged values of a family, by group and label; 0: there is none.
func (p *process) served(family int) (values [simulatedGroups][2]int64) {
	points, _ := p.merged.External(metric.Query{Expression: metric.ParseExpression(familyName(family) + ":last")})
	for _, point := range points {
		group, bit := p.placeOf(point.Labels)
		values[group][bit] = int64(point.Value.Float64())
	}
	return values
}

func (p *process) placeOf(labels metric.Labels) (group, bit int) {
	job, _ := labels.Get("job")
	label, _ := labels.Get("bit")
	if _, err := fmt.Sscan(job+" "+label, &group, &bit); err != nil {
		p.t.Fatal(err)
	}
	return group, bit
}

// A lost change may be shown or not; the newest change that was not lost hides all before it.
func TestNewestStates(t *testing.T) {
	all := []familyState{{change: 1, series: 1}, {change: 2, series: 1}, {change: 3, lost: true}, {change: 4, series: 2, lost: true}}
	for _, c := range []struct {
		shown shownFamily
		want  *familyState
	}{
		{shownFamily{4, 2}, &all[3]}, {shownFamily{}, &all[2]}, {shownFamily{2, 1}, &all[1]},
		{shownFamily{1, 1}, nil}, {shownFamily{4, 1}, nil},
	} {
		if got := newest(all, c.shown); got != c.want {
			t.Errorf("%+v is %+v, want %+v", c.shown, got, c.want)
		}
	}
}

// A replica that is away has series of a group that is changed or deleted meanwhile. No reader of another
// replica gets them, from the change on.
func TestSeriesThatLeaveAGroupWhileAReplicaIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(rand.New(rand.NewPCG(1, 2)), time.Now)
		all := startProcesses(t, f, replicated(10*time.Second, time.Minute), 3)
		tick := 0
		pass := func(n int) {
			for range n {
				passTables(f, all, tick)
				tick++
			}
		}
		key := func(n int) group.Key {
			return group.Key{Labels: metric.NewLabels([]metric.Label{{Key: "job", Value: fmt.Sprint(n)}})}
		}
		wants := func(when string, want [simulatedGroups][2]int64) {
			t.Helper()
			for _, p := range all {
				if p.replica == nil {
					continue
				}
				if got := p.served(0); got != want {
					t.Errorf("%s: %s serves %v, want %v", when, p.name, got, want)
				}
			}
		}
		both, first := [simulatedFamilies]byte{3}, [simulatedFamilies]byte{1}
		pass(20)
		all[1].pushGroup(key(0), true, both, 5)
		all[1].pushGroup(key(1), true, both, 6)
		pass(20)
		wants("all are there", [simulatedGroups][2]int64{{5, 5}, {6, 6}})
		all[1].kill()
		pass(5)
		all[0].pushGroup(key(0), true, first, 7)
		all[0].groups.Delete(key(1), metric.Object{})
		if got, want := all[0].served(0), ([simulatedGroups][2]int64{{7, 0}, {}}); got != want {
			t.Errorf("at once, the replica that was asked serves %v, want %v", got, want)
		}
		pass(10)
		for range 30 {
			wants("origin-1 is away", [simulatedGroups][2]int64{{7, 0}, {}})
			pass(10)
		}
		startProcess(t, f, all[1])
		pass(100)
		wants("origin-1 is back", [simulatedGroups][2]int64{{7, 0}, {}})
		all[1].pushGroup(key(1), true, both, 8)
		pass(20)
		wants("pushed again", [simulatedGroups][2]int64{{7, 0}, {8, 8}})
	})
}
