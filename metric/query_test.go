package metric

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A selector's key selects the label of that very name, otherwise the first one whose name has that
// form in a selector.
func TestSelectable(t *testing.T) {
	selected := func(l Labels, key string) (string, bool) {
		if v, ok := l.Get(key); ok {
			return SelectorValue(v), true
		}
		for k, v := range l.All() {
			if SelectorValue(k) == key {
				return SelectorValue(v), true
			}
		}
		return "", false
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		word := make([]byte, random.IntN(4))
		for i := range word {
			word[i] = "ab_/é"[random.IntN(6)]
		}
		return string(word) + strings.Repeat("z", random.IntN(2)*MaxSelectorValue)
	}
	found := 0
	for range 20_000 {
		set := make([]Label, random.IntN(6))
		for i := range set {
			set[i] = Label{text(), text()}
		}
		labels := NewLabels(set)
		lookup := labels.Selectable()
		for range 5 {
			key := SelectorValue(text())
			want, is := selected(labels, key)
			if got, ok := lookup(key); got != want || ok != is {
				t.Fatalf("%q of %v: %q %v, want %q %v", key, labels, got, ok, want, is)
			}
			if is {
				found++
			}
		}
	}
	if found < 10_000 {
		t.Errorf("%d keys are found: the cases say little", found)
	}
}

// The labels are brought into their forms once, however many keys are looked for.
func TestSelectableReadsLabelsOnce(t *testing.T) {
	set := make([]Label, 60)
	for i := range set {
		set[i] = Label{strings.Repeat("/k", i+1), strings.Repeat("/v", 60)}
	}
	labels := NewLabels(set)
	lookup := labels.Selectable()
	lookup("k")
	if n := testing.AllocsPerRun(100, func() { lookup("missing"); lookup("k_k") }); n > 0 {
		t.Errorf("%v allocations for each key", n)
	}
}

func BenchmarkSelectable(b *testing.B) {
	set := make([]Label, 60)
	for i := range set {
		set[i] = Label{strings.Repeat("k", i+1), strings.Repeat("v", 60)}
	}
	labels := NewLabels(set)
	for b.Loop() {
		lookup := labels.Selectable()
		for range 4096 {
			lookup("missing")
		}
	}
}
