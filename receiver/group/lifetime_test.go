package group

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Times to live are measured by the lifetime clock: setting the machine's clock ends no group,
// while the server runs or by a restart.
func TestATimeToLiveIgnoresTheWallClock(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -10 * time.Minute, 2 * time.Hour, 25 * time.Hour} {
		f := newFixture(t)
		life := 400 * 24 * time.Hour
		f.table.lifetime = func() time.Duration { return life }
		push := func(key string) {
			families, _ := exposition.NewTextReader(exposition.DefaultOptions()).Read([]byte("x 1\n"))
			if _, r := f.Push(&Push{Key: keyOf(key), Families: families, TTL: time.Hour, Now: f.now, Applier: f.table}); r != nil {
				t.Fatal(r.Message)
			}
		}
		push("job=before")
		f.now = f.now.Add(step)
		push("job=after")
		life += 59 * time.Minute
		if n := f.Sweep(life); n != 0 || len(f.All(nil)) != 2 {
			t.Errorf("%s: %d groups ended before their time", step, n)
		}
		again := f.restored(t)
		if n := again.Sweep(life); n != 0 || len(again.All(nil)) != 2 {
			t.Errorf("%s: %d groups ended by a restart", step, n)
		}
		life += time.Minute
		if n := again.Sweep(life); n != 2 {
			t.Errorf("%s: %d groups ended, want both", step, n)
		}
	}
}

// restored is what a later process has of the groups.
func (f *fixture) restored(t *testing.T) *Groups {
	again := New(DefaultConfig(), f.table)
	for _, key := range f.Changed(true) {
		value, _ := f.AppendDocument(nil, key)
		must(t, again.RestoreDocument(key, value))
	}
	return again
}

// Restored series end if no restored group has them: the group is not on disk, or has lost their family.
func TestRestoreDoneEndsSeriesWithoutTheirGroup(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a", "kept 1\nkept_too 2\n")
	f.push("PUT", "job=b", "lost 3\n")
	again := New(DefaultConfig(), f.table)
	key := keyOf("job=a").Hash()
	value, _ := f.AppendDocument(nil, key)
	must(t, again.RestoreDocument(key, value))
	if gone := again.RestoreDone(); gone != 1 || strings.Contains(f.table.String(), "lost") || len(f.table.series) != 2 {
		t.Errorf("%d series ended; left:\n%s", gone, f.table)
	}
}

// Documents of version 1 do not say when a time to live began: their dates do, once, and they are
// written anew.
func TestDocumentsOfVersion1(t *testing.T) {
	f := newFixture(t)
	life := 400 * 24 * time.Hour
	f.table.lifetime = func() time.Duration { return life }
	f.now = time.Now().Add(-40 * time.Minute)
	if _, r := f.Push(&Push{Key: keyOf("job=a"), TTL: time.Hour, Now: f.now, Applier: f.table}); r != nil {
		t.Fatal(r.Message)
	}
	key := f.Changed(true)[0]
	value, _ := f.AppendDocument(nil, key)
	began := (&encoder{}).appended(uint64(life))
	old := bytes.Replace(value, began, nil, 1)
	old[0] = withoutBegan
	again := New(DefaultConfig(), f.table)
	must(t, again.RestoreDocument(key, old))
	if n := again.Sweep(life + 19*time.Minute); n != 0 {
		t.Error("it ended before its time")
	}
	if len(again.Changed(false)) != 1 {
		t.Error("it is not written anew")
	}
	if n := again.Sweep(life + 21*time.Minute); n != 1 {
		t.Error("it has not ended")
	}
}

// appended is a number as a document has it.
func (e *encoder) appended(n uint64) []byte {
	e.number(n)
	return e.dst
}

// TestEndNamespace: what was pushed about a namespace before a moment ends, in whole groups and in groups that
// were pushed to since; groups about other namespaces stay. It stays ended after a restart.
func TestEndNamespace(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=old,namespace=shop", "a 1\n")
	f.push("POST", "job=both,namespace=shop", "b 1\nc 1\n")
	f.push("PUT", "job=old,namespace=other", "a 1\n")
	f.push("PUT", "job=old", "d 1\n")
	end := f.now.Add(time.Second / 2)
	f.push("POST", "job=both,namespace=shop", "c 2\n")
	if n := f.EndNamespace("shop", end); n != 1 {
		t.Errorf("ended %d groups, want 1", n)
	}
	want := `a{instance="",job="old",namespace="other"} 1
c{instance="",job="both",namespace="shop"} 2
d{instance="",job="old"} 1`
	f.exposes(want)
	if got := strings.Count(f.table.String(), "\n") + 1; got != 3 {
		t.Errorf("%d series are served, want 3:\n%s", got, f.table)
	}
	f.balanced()
	f.push("POST", "job=both,namespace=shop", "b 3\n")
	restarted := newFixture(t)
	for _, key := range f.Changed(true) {
		if value, there := f.AppendDocument(nil, key); there {
			must(t, restarted.RestoreDocument(key, value))
		}
	}
	restarted.exposes(strings.Replace(want, "c{", "b{instance=\"\",job=\"both\",namespace=\"shop\"} 3\nc{", 1))
}

// TestEndNamespaceAfterTheClockWasSetBack: times that are to come say nothing, and what was pushed then ends with its namespace.
func TestEndNamespaceAfterTheClockWasSetBack(t *testing.T) {
	f := newFixture(t)
	f.now = time.Now().Add(time.Hour)
	f.push("PUT", "job=old,namespace=shop", "a 1\n")
	f.push("PUT", "job=old,namespace=other", "b 1\n")
	if n := f.EndNamespace("shop", time.Now()); n != 1 {
		t.Errorf("ended %d groups, want 1", n)
	}
	f.exposes(`b{instance="",job="old",namespace="other"} 1`)
	f.balanced()

	all := newReplicas(t, 2)
	a, b := all[0], all[1]
	for _, one := range all {
		one.now = time.Now().Add(time.Hour)
	}
	at(all, a, "PUT", "job=old,namespace=shop", "a 1\n")
	for _, one := range all {
		one.now = time.Now()
	}
	tell(a, b)
	b.EndNamespace("shop", b.now)
	tell(b, a)
	for _, one := range all {
		one.exposes("")
	}
	at(all, a, "PUT", "job=old,namespace=shop", "a 2\n")
	catchUp(t, all)
	for _, one := range all {
		one.exposes(`a{instance="",job="old",namespace="shop"} 2`)
	}
}

// TestReplicatedEndOfANamespace: a replica that was away has the groups of the ended namespace still, and gives
// them to nobody; what was pushed there since counts.
func TestReplicatedEndOfANamespace(t *testing.T) {
	all := newReplicas(t, 2)
	a, b := all[0], all[1]
	at(all, a, "PUT", "job=old,namespace=shop", "a 1\n")
	at(all, a, "POST", "job=both,namespace=shop", "b 1\nc 1\n")
	tell(a, b)
	at(all, b, "POST", "job=both,namespace=shop", "d 1\n") // a is away
	end := b.now.Add(time.Second / 2)
	at(all, b, "PUT", "job=new,namespace=shop", "e 1\n")
	at(all, b, "POST", "job=both,namespace=shop", "c 2\n")
	if n := a.EndNamespace("shop", end); n != 2 {
		t.Errorf("ended %d groups, want 2", n)
	}
	a.exposes("")
	if n := b.EndNamespace("shop", end); n != 1 {
		t.Errorf("ended %d groups, want 1", n)
	}
	catchUp(t, all)
	for _, f := range all {
		f.exposes(`c{instance="",job="both",namespace="shop"} 2
e{instance="",job="new",namespace="shop"} 1`)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
