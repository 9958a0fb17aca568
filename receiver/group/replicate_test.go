package group

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// newReplicas makes replicas named a, b and so on, of one clock.
func newReplicas(t *testing.T, n int) []*fixture {
	all := make([]*fixture, n)
	for i := range all {
		all[i] = newFixture(t)
		all[i].now = time.Now()
		all[i].Replicate(string(rune('a'+i)), slog.New(slog.DiscardHandler))
		all[i].replication.now = func() time.Time { return all[i].now }
	}
	return all
}

// tell hands what changed at one replica to the others.
func tell(from *fixture, to ...*fixture) {
	documents := from.TakeShared()
	for _, other := range to {
		if other != from {
			other.mustApply(documents)
		}
	}
}

// catchUp hands everything to everybody, and checks that then all expose the same.
func catchUp(t *testing.T, replicas []*fixture) {
	t.Helper()
	for _, from := range replicas {
		from.TakeShared()
		for _, to := range replicas {
			if to != from {
				to.mustApply(from.AllShared())
			}
		}
	}
	for _, other := range replicas[1:] {
		if got, want := other.page(), replicas[0].page(); got != want {
			t.Fatalf("a exposes\n%s\nbut %s exposes\n%s", want, other.replication.name, got)
		}
	}
}

// at applies one push at a replica, a second later.
func at(all []*fixture, f *fixture, method, key, body string) {
	f.Helper()
	f.push(method, key, body)
	for _, other := range all {
		other.now = f.now
	}
}

// TestLostChangesAreToldAgain: a replica is killed before its flush, and only some of the others have heard
// of its last change. It hears of the change from them, and tells the rest.
func TestLostChangesAreToldAgain(t *testing.T) {
	for name, change := range map[string]func(all []*fixture, a *fixture){
		"push":     func(all []*fixture, a *fixture) { at(all, a, "POST", "job=x", "n 2\n") },
		"deletion": func(all []*fixture, a *fixture) { at(all, a, "DELETE", "job=x", "") },
		"deletion of an unknown": func(all []*fixture, a *fixture) {
			at(all, a, "PUT", "job=y", "m 1\n")
			at(all, a, "DELETE", "job=y", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := newReplicas(t, 3)
			a, b, c := all[0], all[1], all[2]
			at(all, a, "PUT", "job=x", "m 1\n")
			tell(a, b, c)
			former := restarted(t, a)
			change(all, a)
			tell(a, b)
			former.now = a.now
			former.TakeShared() // of the set-up
			former.mustApply(b.AllShared())
			tell(former, c)
			if got, want := c.page(), b.page(); got != want {
				t.Errorf("c exposes\n%s\nand b\n%s", got, want)
			}
			if got, want := len(c.AllShared()), len(b.AllShared()); got != want {
				t.Errorf("c has %d documents, b has %d", got, want)
			}
			former.mustApply(b.AllShared())
			if again := former.TakeShared(); len(again) != 0 {
				t.Errorf("it shares %d documents again", len(again))
			}
		})
	}
}

// TestReplicatedConflict: a series of another replica's group belongs to that group (ADR 21), and
// limits count it.
func TestReplicatedConflict(t *testing.T) {
	all := newReplicas(t, 2)
	a, b := all[0], all[1]
	at(all, a, "PUT", "job=x,y=1", "m{z=\"2\"} 1\n")
	tell(a, b)
	b.refused("PUT", "job=x,z=2", "m{y=\"1\"} 1\n", metric.Malformed, "already a series of the group")
	b.refused("POST", "job=x,y=1", "# TYPE m counter\nm{z=\"2\"} 1\n", metric.KindConflict, "already a")
	b.config.MaxGroups = b.Count()
	b.refused("PUT", "job=other", "m 1\n", metric.OverLimit, "group limit")
}

// TestReplicatedTTL: a group that was pushed elsewhere ends here too, and does not come back.
func TestReplicatedTTL(t *testing.T) {
	all := newReplicas(t, 2)
	a, b := all[0], all[1]
	if _, r := a.Push(&Push{Key: keyOf("job=x"), TTL: time.Minute, Now: a.now, Applier: a.table}); r != nil {
		t.Fatal(r.Message)
	}
	tell(a, b)
	if got, want := b.All(nil)[0].Expires, a.All(nil)[0].Expires; !got.Equal(want) {
		t.Errorf("expires %v, want %v", got, want)
	}
	b.now = b.now.Add(time.Minute + time.Second)
	if n := b.Sweep(b.table.Lifetime()); n != 1 {
		t.Errorf("%d groups expired, want 1", n)
	}
	b.mustApply(a.AllShared())
	if n := b.Count(); n != 0 {
		t.Errorf("%d groups, want none", n)
	}
}

// TestExpiredFamiliesStayAway: a group has expired and was pushed again. A replica that was away, and
// what it sends, bring nothing of the expired group back.
func TestExpiredFamiliesStayAway(t *testing.T) {
	all := newReplicas(t, 2)
	a, b := all[0], all[1]
	families, _ := exposition.NewTextReader(exposition.DefaultOptions()).Read([]byte("m 1\n"))
	if _, r := b.Push(&Push{Key: keyOf("job=x"), Families: families, TTL: time.Minute, Now: b.now, Applier: b.table}); r != nil {
		t.Fatal(r.Message)
	}
	tell(b, a)
	late := b.AllShared()
	for _, f := range all {
		f.now = f.now.Add(time.Minute)
	}
	a.Sweep(a.table.Lifetime())
	at(all, a, "POST", "job=x", "n 2\n")
	a.mustApply(late)
	a.exposes(`n{instance="",job="x"} 2`)
	if n := len(b.AllShared()); n != 0 {
		t.Errorf("%d expired groups are shared", n)
	}
	tell(a, b)
	b.exposes(`n{instance="",job="x"} 2`)
	b.serves("")
	catchUp(t, all)
	a.balanced()
	b.balanced()
}

// TestExpiredGroupReplaces: a PUT and a deletion hold at other replicas, though the group that they
// left has expired before it arrives.
func TestExpiredGroupReplaces(t *testing.T) {
	all := newReplicas(t, 2)
	a, b := all[0], all[1]
	at(all, a, "POST", "job=x", "m 1\n")
	tell(a, b)
	b.now = b.now.Add(time.Second)
	if _, r := b.Push(&Push{Key: keyOf("job=x"), Replace: true, TTL: time.Minute, Now: b.now, Applier: b.table}); r != nil {
		t.Fatal(r.Message)
	}
	late := b.TakeShared()
	for _, f := range all {
		f.now = f.now.Add(2 * time.Minute)
	}
	at(all, a, "POST", "job=x", "n 2\n")
	a.mustApply(late)
	a.exposes(`n{instance="",job="x"} 2`)
	a.serves(`n{instance=,job=x} gauge 2`)
	a.balanced()
}

// TestClocksOfReplicas: a push that knows of another one is newer, whatever the clocks say; and
// times of a replica whose clock is far off are corrected.
func TestClocksOfReplicas(t *testing.T) {
	all := newReplicas(t, 2)
	a, b := all[0], all[1]
	a.now = b.now.Add(1500 * time.Millisecond)
	a.push("PUT", "job=x", "m 1\n")
	tell(a, b)
	b.push("PUT", "job=x", "m 2\n")
	tell(b, a)
	catchUp(t, all)
	a.exposes(`m{instance="",job="x"} 2`)

	at(all, a, "POST", "job=y", "m 1\n")
	documents := a.TakeShared()
	for i := range documents {
		documents[i].Stamp += time.Hour.Milliseconds()
	}
	b.mustApply(documents)
	i := slices.IndexFunc(b.All(nil), func(g Group) bool { job, _ := g.Key.Labels.Get("job"); return job == "y" })
	if pushed := b.All(nil)[i].Pushed; pushed.Sub(a.now) < 59*time.Minute {
		t.Errorf("pushed at %v; must be an hour later", pushed)
	}
}

// TestTombstonesAreBounded: the oldest deletions are forgotten first, and all after a day.
func TestTombstonesAreBounded(t *testing.T) {
	f := newReplicas(t, 1)[0]
	var said strings.Builder
	f.replication.logger = slog.New(slog.NewTextHandler(&said, nil))
	s := &f.shards[0]
	now := time.Now()
	for i := range maxTombstones + 10 {
		f.setTombstone(Hash{0, byte(i), byte(i >> 8)}, tombstone{version{now.UnixMilli() - int64(i), "a"}, "shop"})
	}
	if n := len(s.tombstones); n != maxTombstones || f.tombstone(Hash{}).stamp == 0 {
		t.Errorf("%d tombstones, want %d, the newest", n, maxTombstones)
	}
	if n := strings.Count(said.String(), "forgotten early"); n != 1 {
		t.Errorf("the log says %d times that deletions are forgotten early, want once:\n%s", n, said.String())
	}
	f.Changed(false)
	s.forgetOld(now.Add(tombstoneLife + time.Millisecond))
	if n, changed := len(s.tombstones), len(f.Changed(false)); n != 0 || changed != maxTombstones {
		t.Errorf("%d tombstones are left; %d documents have changed", n, changed)
	}
}

// TestDeletionsOfOthersStay: a namespace that deletes as many groups as it likes has those of others remembered, also by replicas
// that heard of them and by the next process.
func TestDeletionsOfOthersStay(t *testing.T) {
	all := newReplicas(t, 3)
	a, b := all[0], all[1]
	own := Hash{0, 0xff}
	at := func(i int) version { return version{time.Now().UnixMilli() + int64(i), "a"} }
	a.setTombstone(own, tombstone{at(0), "bank"})
	for i := range 2 * maxTombstones {
		a.setTombstone(Hash{0, byte(i), byte(i >> 8), 1}, tombstone{at(i + 1), "shop"})
		if i == maxTombstones-10 {
			b.mustApply(a.AllShared())
			c := all[2]
			for _, key := range a.Changed(true) {
				document, _ := a.AppendDocument(nil, key)
				must(t, c.RestoreDocument(key, document))
			}
			for j := range 2 * maxTombstones {
				b.setTombstone(Hash{0, byte(j), byte(j >> 8), 2}, tombstone{at(j + 1), "shop"})
				c.setTombstone(Hash{0, byte(j), byte(j >> 8), 2}, tombstone{at(j + 1), "shop"})
			}
		}
	}
	for _, f := range all {
		if f.tombstone(own).namespace != "bank" {
			t.Errorf("a deletion of bank is forgotten, among %d", len(f.shards[0].tombstones))
		}
	}
	former := appendTombstone(nil, own, tombstone{at(0), ""})
	former = append([]byte{tombstoneWithoutNamespace}, former[1:len(former)-2]...)
	if _, ended, err := readTombstone(former); err != nil || ended.namespace != "" || ended.origin != "a" {
		t.Errorf("a document of a former release: %v %v", ended, err)
	}
}

// page is all that a replica says about its groups.
func (f *fixture) page() string {
	var b strings.Builder
	for _, g := range f.All(nil) {
		fmt.Fprintln(&b, g.Key.Labels, g.Pushed.UnixNano(), g.Failed.UnixNano(), g.contents.ttl)
		for family, pushed := range g.Families() {
			fmt.Fprintln(&b, " ", family.Name, family.Type, pushed.UnixNano())
			for _, m := range family.Metrics {
				fmt.Fprintln(&b, "   ", m.Labels, m.Value)
			}
		}
	}
	return b.String()
}

// TestReplicasConverge: whatever happens at which replica, and whatever is lost, doubled, late or
// out of order between them, all replicas end with the same groups. If each change is told at once,
// they are those of one process. Restarts from their documents change nothing.
func TestReplicasConverge(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		all := newReplicas(t, 2+random.IntN(2))
		fixture := newFixture(t)
		fixture.now = time.Now()
		atOnce := seed%2 == 0
		var underWay []Document
		now := fixture.now
		for step := range 60 {
			i := random.IntN(len(all))
			f := all[i]
			f.now, fixture.now = now, now
			agree := randomChange(random, f, fixture)
			for _, other := range all {
				other.now = f.now
			}
			if now = f.now; !agree && atOnce {
				t.Fatalf("seed %d, step %d: a replica and one process don't agree whether a push is possible", seed, step)
			}
			if random.IntN(10) == 0 {
				all[i] = restarted(t, f)
				f = all[i]
			}
			underWay = append(underWay, f.TakeShared()...)
			if atOnce {
				for _, other := range all {
					other.mustApply(underWay)
				}
				underWay = nil
				continue
			}
			random.Shuffle(len(underWay), func(i, j int) { underWay[i], underWay[j] = underWay[j], underWay[i] })
			if n := len(underWay); n > 4 {
				all[random.IntN(len(all))].mustApply(underWay[:n/2])
				underWay = underWay[n/4:]
			}
		}
		catchUp(t, all)
		for _, f := range all {
			f.balanced()
			held(t, f)
		}
		if atOnce {
			held(t, fixture, all...)
			exposed := exposedLines(fixture)
			if got := exposedLines(all[0]); got != exposed {
				t.Fatalf("seed %d: replicas expose\n%s\none process exposes\n%s", seed, got, exposed)
			}
		}
	}
}

// randomChange makes one change at a replica and at the process that gets all changes.
// Both must agree whether it is possible.
func randomChange(random *rand.Rand, replica, f *fixture) (agree bool) {
	number := random.IntN(3)
	key := []string{"job=x", "job=x,y=1", "job=z"}[number]
	switch random.IntN(12) {
	case 0, 1:
		replica.Delete(keyOf(key))
		f.Delete(keyOf(key))
		return true
	case 2:
		replica.RecordFailure(keyOf(key), metric.Object{}, 0, replica.now)
		f.RecordFailure(keyOf(key), metric.Object{}, 0, replica.now)
		return true
	case 3:
		replica.Wipe(nil)
		f.Wipe(nil)
		return true
	}
	var body strings.Builder
	for _, name := range []string{"k", "l", "m", "n"} {
		if random.IntN(2) == 0 {
			continue
		}
		kind := []string{"gauge", "untyped"}[random.IntN(5)/4]
		if name == "k" { // a name of this group alone, because the table has one kind for a name
			name += strconv.Itoa(number)
			kind = []string{"gauge", "counter"}[random.IntN(2)]
		}
		fmt.Fprintf(&body, "# TYPE %s %s\n", name, kind)
		for i := range 1 + random.IntN(3) {
			fmt.Fprintf(&body, "%s{i=\"%d\"} %d\n", name, i+random.IntN(2)*3, random.IntN(1000))
		}
	}
	method := []string{"PUT", "POST"}[random.IntN(2)]
	_, r := replica.try(method, key, body.String())
	_, r1 := f.try(method, key, body.String())
	return (r == nil) == (r1 == nil)
}

// restarted is a replica after a restart with its table and documents.
func restarted(t *testing.T, f *fixture) *fixture {
	t.Helper()
	again := &fixture{T: t, Groups: New(f.config, f.table), table: f.table, now: f.now}
	f.table.lifetime = func() time.Duration { return time.Duration(again.now.UnixNano()) }
	again.Replicate(f.replication.name, f.replication.logger)
	again.replication.now = func() time.Time { return again.now }
	for _, key := range f.Changed(true) {
		value, there := f.AppendDocument(nil, key)
		if !there {
			continue
		}
		must(t, again.RestoreDocument(key, value))
	}
	for i := range f.shards {
		again.shards[i].shared = f.shards[i].shared
	}
	return again
}

// held checks that the tables have exactly the series that the groups of one process say.
func held(t *testing.T, groups *fixture, replicas ...*fixture) {
	t.Helper()
	var builder sampleBuilder
	want := map[series]bool{}
	for _, g := range groups.All(nil) {
		for _, f := range g.contents.families {
			for i := range f.Metrics {
				if f.served(i) {
					want[series{g.Object, f.Name, builder.labelSet(&g.Object, f, i)}] = true
				}
			}
		}
	}
	if len(replicas) == 0 {
		replicas = []*fixture{groups}
	}
	have := map[series]bool{}
	for _, f := range replicas {
		for key := range f.table.series {
			have[key] = true
			if !want[key] {
				t.Errorf("the table of %s still has %v", f.replication.name, key)
			}
		}
	}
	for key := range want {
		if !have[key] {
			t.Errorf("no table has %v", key)
		}
	}
}

func exposedLines(f *fixture) string {
	var lines []string
	for line := range strings.Lines(string(exposition.Append(nil, exposition.Text, MergedFamilies(f.All(nil), exposition.AllowUTF8)...))) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, pushTime) && !strings.HasPrefix(line, failureTime) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func (f *fixture) mustApply(documents []Document) {
	f.Helper()
	must(f, f.Apply(documents))
}

// TestDocumentsOfOthersThatAreNone: a document that is damaged, of another group, or beyond the
// memory of groups is not applied.
func TestDocumentsOfOthersThatAreNone(t *testing.T) {
	all := newReplicas(t, 2)
	a, b := all[0], all[1]
	at(all, a, "PUT", "job=x", "m 1\n")
	at(all, a, "PUT", "job=y", "m 1\n")
	a.Delete(keyOf("job=y"))
	documents := a.TakeShared()
	for _, d := range documents {
		for i := range d.Value {
			if b.Apply([]Document{{d.Key, d.Stamp, d.Value[:i]}}) == nil {
				t.Errorf("the first %d of %d bytes were applied", i, len(d.Value))
			}
		}
		if b.Apply([]Document{{Hash{}, d.Stamp, d.Value}}) == nil {
			t.Error("another group's document was applied")
		}
	}
	b.config.MaxBytes = 10
	if b.Apply(documents) == nil || b.Count() != 0 {
		t.Error("a document beyond the memory of groups was applied")
	}
}

// TestLateDocuments: a document that comes late changes nothing that is newer.
func TestLateDocuments(t *testing.T) {
	all := newReplicas(t, 2)
	a, b := all[0], all[1]
	at(all, a, "POST", "job=x", "m 1\n")
	at(all, a, "POST", "job=y", "m 1\nn 1\n")
	late := a.TakeShared()
	at(all, a, "POST", "job=x", "m 2\n")
	a.Delete(keyOf("job=y"))
	at(all, a, "POST", "job=y", "m 2\n")
	tell(a, b)
	b.mustApply(late)
	b.exposes("m{instance=\"\",job=\"x\"} 2\nm{instance=\"\",job=\"y\"} 2")
}

// TestReplicasAtOnce: pushes, deletions, sweeps and documents of other replicas at the same time end
// with the same groups everywhere.
func TestReplicasAtOnce(t *testing.T) {
	all := newReplicas(t, 3)
	now := time.Now()
	for _, f := range all {
		f.replication.now = time.Now
		f.table.lifetime = func() time.Duration { return time.Since(now) + time.Hour }
	}
	var running sync.WaitGroup
	for i, f := range all {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 3))
			families, _ := exposition.NewTextReader(exposition.DefaultOptions()).Read([]byte("m 1\nn{a=\"b\"} 2\n"))
			for range 300 {
				key := keyOf(fmt.Sprint("job=", random.IntN(3)))
				switch random.IntN(6) {
				case 0:
					f.Delete(key)
				case 1:
					f.RecordFailure(key, metric.Object{}, 0, time.Now())
				default:
					some := families[random.IntN(2):]
					f.Push(&Push{Key: key, Families: some, Replace: random.IntN(2) == 0, Now: time.Now(), Applier: f.table})
				}
			}
		})
		running.Go(func() {
			for range 100 {
				documents := f.TakeShared()
				for _, other := range all {
					if other != f {
						_ = other.Apply(documents)
					}
				}
				f.Sweep(f.table.Lifetime())
				f.Changed(false)
				f.All(nil)
			}
		})
	}
	running.Wait()
	catchUp(t, all)
	for _, f := range all {
		f.balanced()
		held(t, f)
	}
}
