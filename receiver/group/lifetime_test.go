package group

import (
	"bytes"
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
		if err := again.RestoreDocument(key, value); err != nil {
			t.Fatal(err)
		}
	}
	return again
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
	if err := again.RestoreDocument(key, old); err != nil {
		t.Fatal(err)
	}
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
