package deletion

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// model is a Table that records what it was told to delete.
type model struct{ deleted []string }

func (m *model) DeleteBorn(q metric.Query, before time.Time) int {
	labels := ""
	if q.MatchLabels != nil {
		a := metric.NewLabels([]metric.Label{{Key: "a", Value: "1"}})
		ab := metric.NewLabels([]metric.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}})
		labels = fmt.Sprint(" ", q.MatchLabels(metric.Labels{}), q.MatchLabels(a), q.MatchLabels(ab))
	}
	m.deleted = append(m.deleted, fmt.Sprintf("%s/%s/%s %s before %s%s", q.Resource, q.Namespace, q.Object,
		q.Expression.Name, before.UTC().Format(time.TimeOnly), labels))
	return 1
}

func (m *model) DeleteNamespace(namespace string, before time.Time) int {
	m.deleted = append(m.deleted, fmt.Sprintf("all of %s before %s", namespace, before.UTC().Format(time.TimeOnly)))
	return 1
}

func newLog(name string) (*Log, *model) {
	m := &model{}
	return New(name, m, slog.New(slog.NewTextHandler(io.Discard, nil))), m
}

func (m *model) wants(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(m.deleted, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("deleted:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	m.deleted = nil
}

func mustApply(t *testing.T, l *Log, documents []Document) {
	t.Helper()
	if err := l.Apply(documents); err != nil {
		t.Fatal(err)
	}
}

// TestDeletions: another replica deletes the same, once, with the corrected time, and tells a third.
func TestDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newLog("a")
		b, table := newLog("b")
		a.Add(&Selector{Resource: "pods", Namespace: "shop", Object: "*", Name: "m"})
		a.Add(&Selector{Name: "x", Labels: []metric.Label{{Key: "a", Value: "1"}}})
		a.Add(&Selector{Name: "y", Labels: []metric.Label{{Key: "a", Value: "1"}}, Exact: true})
		documents := a.TakeShared()
		if again := a.TakeShared(); len(documents) != 3 || len(again) != 0 || len(a.AllShared()) != 3 {
			t.Fatalf("%d deletions, then %d; want 3, then none", len(documents), len(again))
		}
		time.Sleep(time.Second)
		for _, d := range documents {
			if strings.Contains(string(d.Value), "shop") {
				d.Stamp += 1000
			}
			mustApply(t, b, []Document{d, d})
			switch value := string(d.Value); {
			case strings.Contains(value, "shop"):
				table.wants(t, "pods/shop/* m before 00:00:01")
			case strings.Contains(value, "x"):
				table.wants(t, "// x before 00:00:00 false true true")
			default:
				table.wants(t, "// y before 00:00:00 false true false")
			}
		}
		if len(b.TakeShared()) != 0 {
			t.Error("a deletion of another replica is told as an own one")
		}
		c, third := newLog("c")
		mustApply(t, c, b.AllShared())
		if len(third.deleted) != 3 {
			t.Errorf("the third replica deleted %q", third.deleted)
		}
		mustApply(t, b, a.AllShared())
		table.wants(t)
		time.Sleep(time.Second)
		a.Add(&Selector{Resource: "pods", Namespace: "shop", Object: "*", Name: "m"})
		mustApply(t, b, a.TakeShared())
		table.wants(t, "pods/shop/* m before 00:00:02")
		if n := b.Removals(); n != 4 {
			t.Errorf("%d series were deleted, want one for each deletion", n)
		}
		if len(a.byKey) != 3 || len(b.byKey) != 3 {
			t.Errorf("%d and %d deletions, want 3", len(a.byKey), len(b.byKey))
		}
	})
}

// A second deletion of the same series within a millisecond is newer all the same.
func TestDeletionsOfOneMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newLog("a")
		b, table := newLog("b")
		for range 2 {
			a.Add(&Selector{Name: "x"})
			mustApply(t, b, a.TakeShared())
		}
		if len(table.deleted) != 2 {
			t.Errorf("deleted: %q, want two deletions", table.deleted)
		}
	})
}

// TestEndedNamespaces: the series of a namespace that ended at a moment are deleted by another replica too.
func TestEndedNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newLog("a")
		b, table := newLog("b")
		a.AddNamespace("shop", time.Now().Add(-time.Second))
		a.Add(&Selector{Namespace: "shop", Name: "m"})
		mustApply(t, b, a.TakeShared())
		slices.Sort(table.deleted)
		table.wants(t, "/shop/ m before 00:00:00", "all of shop before 23:59:59")
	})
}

// TestDeletionsAreRepeated: series that came from another replica meet the deletions of the day.
func TestDeletionsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, table := newLog("a")
		l.Add(&Selector{Resource: "pods", Namespace: "shop", Object: "*", Name: "m"})
		time.Sleep(time.Minute)
		l.Repeat()
		table.wants(t, "pods/shop/* m before 00:00:00")
	})
}

// A deletion by a clock that was set back since has a stamp to come. It removes nothing that was pushed after it, at no
// replica and however often, and neither does a later one of the name, which counts all the same, also after a restart.
func TestDeletionsAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, own := newLog("a")
		b, table := newLog("b")
		c, third := newLog("c")
		a.AddNamespace("shop", time.Now().Add(time.Hour))
		mustApply(t, b, a.TakeShared())
		table.wants(t, "all of shop before 00:00:00")
		time.Sleep(time.Minute)
		for _, l := range []*Log{a, b} {
			l.Repeat()
		}
		own.wants(t, "all of shop before 00:00:00")
		table.wants(t, "all of shop before 00:00:00")
		restarted, ofRestarted := newLog("b")
		for key, value := range b.Following(true) {
			if err := restarted.RestoreDocument(key, value); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		restarted.Repeat()
		ofRestarted.wants(t, "all of shop before 00:00:00")
		fresh, ofFresh := newLog("d")
		mustApply(t, fresh, restarted.AllShared())
		ofFresh.wants(t, "all of shop before 00:00:00")
		a.AddNamespace("shop", time.Now().Add(-time.Second))
		later := a.TakeShared()
		for _, l := range []*Log{b, c, restarted} {
			mustApply(t, l, later)
			time.Sleep(time.Minute)
			mustApply(t, l, later)
			l.Repeat()
		}
		for _, m := range []*model{table, third, ofRestarted} {
			m.wants(t, "all of shop before 00:01:59", "all of shop before 00:01:59")
		}
		a.AddNamespace("bank", time.Now().Add(time.Hour))
		time.Sleep(time.Minute)
		b.AddNamespace("bank", time.Now())
		mustApply(t, a, b.TakeShared())
		own.wants(t, "all of bank before 00:06:00")
	})
}

// TestLostDeletionsAreToldAgain: a replica that was killed before its flush hears of its own deletion from
// one that has it, and tells the rest.
func TestLostDeletionsAreToldAgain(t *testing.T) {
	a, _ := newLog("a")
	b, _ := newLog("b")
	a.Add(&Selector{Namespace: "shop", Name: "m"})
	mustApply(t, b, a.TakeShared())
	restarted, _ := newLog("a")
	mustApply(t, restarted, b.AllShared())
	if told := restarted.TakeShared(); len(told) != 1 {
		t.Errorf("it tells of %d deletions, want 1", len(told))
	}
	mustApply(t, restarted, b.AllShared())
	if told := append(restarted.TakeShared(), b.TakeShared()...); len(told) != 0 {
		t.Errorf("%d deletions are told of again", len(told))
	}
}

// TestADeletionThatComesBackIsNoNews: replicas correct the stamp of what they pass on by what they make of each other's
// clocks. A deletion that comes back with a later one, after a restart too, doesn't remove what was pushed since.
func TestADeletionThatComesBackIsNoNews(t *testing.T) {
	a, table := newLog("a")
	b, _ := newLog("b")
	a.Add(&Selector{Namespace: "shop", Name: "m"})
	told := func(from *Log, later int64) []Document {
		all := from.AllShared()
		for i := range all {
			all[i].Stamp += later
		}
		return all
	}
	mustApply(t, b, told(a, 9000))
	mustApply(t, a, told(b, -8000))
	restarted, ofRestarted := newLog("b")
	for key, value := range b.Following(true) {
		if err := restarted.RestoreDocument(key, value); err != nil {
			t.Fatal(err)
		}
	}
	mustApply(t, restarted, told(a, 10_000))
	ofRestarted.wants(t)
	mustApply(t, a, told(restarted, -8000))
	table.wants(t)
}

// TestDeletionsEnd: a day later, deletions are forgotten, also by the store; older ones are ignored.
func TestDeletionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, table := newLog("a")
		a.Add(&Selector{Name: "m"})
		old := a.TakeShared()
		if n := len(a.Following(false)); n != 1 {
			t.Errorf("%d changed, want 1", n)
		}
		time.Sleep(life)
		documents := a.Following(false)
		if len(documents) != 1 || len(a.byKey) != 0 {
			t.Errorf("%d changed, %d left", len(documents), len(a.byKey))
		}
		for _, document := range documents {
			if document != nil {
				t.Error("a deletion that is over has a document")
			}
		}
		mustApply(t, a, old)
		table.wants(t)
	})
}

// TestDeletionsAreBounded: the oldest are forgotten first, and the log says so.
func TestDeletionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		l := New("a", &model{}, slog.New(slog.NewTextHandler(&said, nil)))
		first := Selector{Name: "first"}
		l.Add(&first)
		for i := range most + 2 {
			if i%1000 == 0 {
				time.Sleep(time.Millisecond)
			}
			l.Add(&Selector{Name: fmt.Sprint("m", i)})
		}
		if there := l.byKey[first.key()] != nil; there || len(l.byKey) != most {
			t.Errorf("%d deletions, the oldest: %v", len(l.byKey), there)
		}
		if n := strings.Count(said.String(), "forgotten early"); n != 1 {
			t.Errorf("said %d times: %s", n, said.String())
		}
	})
}

// TestEndsOfNamespacesOutlastOtherDeletions: however much is deleted, ends of namespaces are told, in half of the room;
// and however many namespaces end, so are other deletions.
func TestEndsOfNamespacesOutlastOtherDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLog("a")
		add := func(from, to int) {
			for i := from; i < to; i++ {
				l.Add(&Selector{Name: fmt.Sprint("m", i)})
			}
			time.Sleep(time.Second)
		}
		check := func(when string, want map[*Selector]bool) {
			t.Helper()
			for s, kept := range want {
				if there := l.byKey[s.key()] != nil; there != kept {
					t.Errorf("%s, the deletion of %s%s is told: %v, want %v", when, s.Namespace, s.Name, there, kept)
				}
			}
			if len(l.byKey) != most {
				t.Errorf("%s, there are %d deletions, want %d", when, len(l.byKey), most)
			}
		}
		first, second, one := &Selector{Namespace: "first"}, &Selector{Namespace: "second"}, &Selector{Name: "m0"}
		l.AddNamespace("first", time.Now())
		time.Sleep(time.Second)
		l.AddNamespace("second", time.Now())
		time.Sleep(time.Second)
		add(0, 2)
		add(2, most-1)
		add(most-1, most) // the newest: of equally old ones, any may go
		check("after many deletions", map[*Selector]bool{first: true, second: true, one: false})
		for i := range most/2 - 1 {
			l.AddNamespace(fmt.Sprint("n", i), time.Now())
		}
		check("after many ends", map[*Selector]bool{first: false, second: true, {Name: fmt.Sprint("m", most-1)}: true})
		add(most, most+1)
		check("after one more", map[*Selector]bool{second: true, {Name: fmt.Sprint("m", most)}: true})
	})
}

// A namespace whose author deletes without end has no deletion of another one forgotten, also by metrics of the Namespace
// itself.
func TestDeletionsOfANamespaceOutlastThoseOfOthers(t *testing.T) {
	for name, in := range map[string]func(namespace, name string) *Selector{
		"external": func(namespace, name string) *Selector { return &Selector{Namespace: namespace, Name: name} },
		"its own": func(namespace, name string) *Selector {
			return &Selector{Resource: "namespaces", Object: namespace, Name: name}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLog("a")
				one := in("shop", "orders")
				l.Add(one)
				time.Sleep(time.Second)
				for i := range most + 100 {
					l.Add(in("flood", fmt.Sprint("m", i)))
				}
				if l.byKey[one.key()] == nil || len(l.byKey) != most {
					t.Errorf("there are %d deletions, want %d with that of another namespace", len(l.byKey), most)
				}
			})
		})
	}
}

// A namespace whose deletions are long has the bytes that all have at most, and no deletion of another one forgotten, at
// the replica that hears of them and in the next process, too. What is kept for the choice follows what is kept.
func TestLongDeletionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newLog("a")
		b, _ := newLog("b")
		one := &Selector{Namespace: "shop", Name: "orders"}
		a.Add(one)
		time.Sleep(time.Second)
		long := strings.Repeat("x", 15_000)
		for i := range 2 * mostBytes / len(long) {
			labels := []metric.Label{{Key: "a", Value: fmt.Sprint(long, i)}}
			a.Add(&Selector{Namespace: "flood", Name: "m", Labels: labels})
			if i%100 == 0 {
				time.Sleep(time.Second)
				mustApply(t, b, a.TakeShared())
			}
		}
		mustApply(t, b, a.TakeShared())
		next, _ := newLog("a")
		for key, document := range a.Following(true) {
			if document != nil {
				if err := next.RestoreDocument(key, document); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, l := range map[string]*Log{"here": a, "another": b, "next": next} {
			bytes := 0
			for _, d := range l.byKey {
				bytes += d.bytes()
			}
			if bytes > mostBytes || bytes < mostBytes-2*len(long) || l.byKey[one.key()] == nil {
				t.Errorf("%s: %d bytes of deletions, at most %d; one of another namespace: %v", name, bytes, mostBytes,
					l.byKey[one.key()] != nil)
			}
			if l.kept.bytes.Held() != bytes || l.kept.number.Held() != len(l.byKey) {
				t.Errorf("%s: %d bytes of %d are counted, there are %d of %d", name, l.kept.bytes.Held(),
					l.kept.number.Held(), bytes, len(l.byKey))
			}
		}
		time.Sleep(life)
		a.AllShared()
		if a.kept.number.Held() > 0 || a.kept.bytes.Held() > 0 || len(a.kept.others) > 0 {
			t.Errorf("%d are counted after a day", a.kept.number.Held())
		}
	})
}

// flushing is a table during whose removals a flush begins.
type flushing struct {
	model
	log       *Log
	documents int // that flush would have
}

func (f *flushing) DeleteBorn(q metric.Query, before time.Time) int {
	f.documents += len(f.log.Following(false))
	return f.model.DeleteBorn(q, before)
}

// TestDocumentFollowsItsRemoval: a flush that begins while another replica's deletion removes series doesn't write the
// deletion's document. The series may still be on disk, and a deletion that is known is not applied again.
func TestDocumentFollowsItsRemoval(t *testing.T) {
	a, _ := newLog("a")
	a.Add(&Selector{Name: "m"})
	table := &flushing{}
	table.log = New("b", table, slog.New(slog.DiscardHandler))
	mustApply(t, table.log, a.TakeShared())
	if after := len(table.log.Following(false)); table.documents != 0 || after != 1 {
		t.Errorf("%d documents during the removal, %d after it", table.documents, after)
	}
}

// TestDeletionDocuments: what is restored is what was saved; damaged documents are errors.
func TestDeletionDocuments(t *testing.T) {
	a, _ := newLog("a")
	a.Add(&Selector{
		Resource: "pods", Namespace: "shop", Object: "web", Name: "m",
		Labels: []metric.Label{{Key: "b", Value: "2"}, {Key: "a", Value: "1"}},
	})
	b, table := newLog("a")
	for key, value := range a.Following(true) {
		if !IsDocument(value) {
			t.Error("is no document")
		}
		if err := b.RestoreDocument(key, value); err != nil {
			t.Fatal(err)
		}
		if again := b.byKey[key].append(nil); !bytes.Equal(again, value) {
			t.Errorf("%q, want %q", again, value)
		}
		for i := range value {
			if b.RestoreDocument(key, value[:i]) == nil || b.Apply([]Document{{key, 1, value[:i]}}) == nil {
				t.Errorf("%d of %d bytes were taken", i, len(value))
			}
		}
		if b.RestoreDocument(Key{}, value) == nil || b.Apply([]Document{{Key{}, 1, value}}) == nil {
			t.Error("another deletion's document was taken")
		}
	}
	table.wants(t)
}

func FuzzDocument(f *testing.F) {
	l, _ := newLog("a")
	l.Add(&Selector{
		Resource: "pods", Namespace: "shop", Object: "web", Name: "m",
		Labels: []metric.Label{{Key: "b", Value: "2"}},
	})
	l.AddNamespace("shop", time.Now())
	for _, d := range l.AllShared() {
		f.Add(d.Value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		d, err := read(value)
		if err != nil {
			return
		}
		written := d.append(nil)
		if again, err := read(written); err != nil || !bytes.Equal(again.append(nil), written) {
			t.Errorf("%x of %x: %v", written, value, err)
		}
		if match := d.selector.Query().MatchLabels; match != nil {
			match(metric.Labels{})
		}
	})
}
