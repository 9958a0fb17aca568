package metric

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fewLabels are some labels of ten keys, in any order.
func fewLabels() (all []Label) {
	for _, key := range rand.Perm(10)[:rand.N(10)] {
		all = append(all, Label{fmt.Sprint("k", key), fmt.Sprint(rand.N(2))})
	}
	return all
}

// Sets are compared as maps are, in whatever order the labels of a selector come.
func TestSetsOfLabelsAreCompared(t *testing.T) {
	for range 10_000 {
		a, of := fewLabels(), NewLabels(fewLabels())
		have, all, shared := of.Map(), true, map[string]string{}
		for _, l := range a {
			if v, ok := have[l.Key]; !ok || v != l.Value {
				all = false
			} else {
				shared[l.Key] = v
			}
		}
		if len(a) > 0 && HavingAll(a)(of) != all {
			t.Fatalf("%v has all of %v: %v", of, a, !all)
		}
		if got := of.Intersection(NewLabels(a)).Map(); fmt.Sprint(got) != fmt.Sprint(shared) {
			t.Fatalf("%v and %v share %v", of, a, got)
		}
		for i := range 10 {
			key := fmt.Sprint("k", i)
			if v, ok := of.Get(key); v != have[key] || ok != (v != "") {
				t.Fatalf("%s of %v: %q, %v", key, of, v, ok)
			}
		}
	}
}

// manyLabels is the largest set of a series.
func manyLabels() (all []Label) {
	for i := range 64 {
		all = append(all, Label{fmt.Sprintf("%02d", i), "v"})
	}
	return all
}

// The keys of a sorted set are found in one walk of another one: what was passed is not looked at again, also where a key is
// missing.
func TestSetsAreComparedInOneWalk(t *testing.T) {
	rest := NewLabels(manyLabels())
	for i, l := range manyLabels() {
		if _, ok := rest.seek(l.Key + "-"); ok || rest.Len() != 63-i {
			t.Fatalf("%d labels are left after a key that is missing, want %d", rest.Len(), 63-i)
		}
	}
	rest = NewLabels(manyLabels())
	for i, l := range manyLabels() {
		if v, ok := rest.seek(l.Key); !ok || v != l.Value || rest.Len() != 63-i {
			t.Fatalf("%d labels are left after %s", rest.Len(), l.Key)
		}
	}
}

// A selector that differs from a series in its last label alone.
func BenchmarkHavingAll(b *testing.B) {
	all := manyLabels()
	of := NewLabels(all)
	all[63].Value = "w"
	matches := HavingAll(all)
	for b.Loop() {
		if matches(of) {
			b.Fatal("it matches")
		}
	}
}

func BenchmarkIntersection(b *testing.B) {
	all := manyLabels()
	of := NewLabels(all)
	all[63].Value = "w"
	for b.Loop() {
		if of.Intersection(NewLabels(all)).Len() != 63 {
			b.Fatal("63 labels are shared")
		}
	}
}

// A selector of a key that follows all of a series.
func BenchmarkHavingAllOfNone(b *testing.B) {
	of, matches := NewLabels(manyLabels()), HavingAll([]Label{{"z", "v"}})
	for b.Loop() {
		if matches(of) {
			b.Fatal("it matches")
		}
	}
}
