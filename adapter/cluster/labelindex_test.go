package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func selectorOf(t testing.TB, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	must(t, err)
	return s
}

// selectors cover every operator, alone and combined.
var selectors = []string{
	"a=1", "a==2,b=0", "a in (0,1,3)", "a in (9)", "b=1,a in (0,2)", "a=1,b!=1", "a=1,!c", "c=0,b", "a in (1,2),b notin (0)", "a in (1,2),b>0",
	"b", "!b", "a!=1", "d", "", "a=1,a=2", "a in (1,2),a in (2,3)",
}

func randomPod(random *rand.Rand) *corev1.Pod {
	p := aPod(fmt.Sprint("ns", random.IntN(3)), fmt.Sprint("p", random.IntN(40)), fmt.Sprint("u", random.Uint64()))
	for _, key := range []string{"a", "b", "c"} {
		if random.IntN(4) > 0 {
			labelled(p, key, fmt.Sprint(random.IntN(4)))
		}
	}
	if random.IntN(8) == 0 {
		p = finished(p)
	}
	return p
}

// The index finds the same pods as a scan of all pods, after any changes.
func TestLabelIndexAgainstAScan(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	p := newPods(&Observer{})
	for round := range 4000 {
		switch random.IntN(20) {
		default:
			p.put(newPod(randomPod(random)))
		case 0, 1, 2, 3, 4, 5:
			p.drop(fmt.Sprint("ns", random.IntN(3)), fmt.Sprint("p", random.IntN(40)))
		case 6:
			if one := p.byName("ns1", fmt.Sprint("p", random.IntN(40))); one != nil { // other labels, the same UID
				again := randomPod(random)
				again.Namespace, again.Name, again.UID = one.Namespace, one.Name, "kept"
				p.put(newPod(again))
			}
		case 7:
			var all []*pod
			for range random.IntN(60) {
				all = append(all, newPod(randomPod(random)))
			}
			p.replace(all)
		}
		comparePostings(t, p, "ns1", selectors[round%len(selectors)])
	}
	p.replace(nil)
	if len(p.byLabel) != 0 || p.labelRoom.Held() != 0 {
		t.Errorf("postings of no pods: %v, %d bytes", p.byLabel, p.labelRoom.Held())
	}
}

func comparePostings(t *testing.T, p *pods, namespace, text string) {
	t.Helper()
	selector := selectorOf(t, text)
	want, got := []string{}, []string{}
	for _, pod := range p.byKey[namespace] {
		if selector.Matches(pod.labels) {
			want = append(want, pod.UID)
		}
	}
	found, ok := p.matching(namespace, selector, bigCluster)
	if names := strings.ContainsAny(text, "=") && text != "a!=1" || strings.Contains(text, " in "); ok != names {
		t.Fatalf("%q: listed %v, want %v", text, ok, names)
	}
	if !ok {
		return
	}
	for _, pod := range found {
		got = append(got, pod.UID)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("%q: %q, want %q", text, got, want)
	}
	if _, ok := p.matching(namespace, selector, len(want)-1); ok {
		t.Fatalf("%q: %d pods are listed where fewer were to be looked at", text, len(want))
	}
}

// A list taken during changes contains no pod twice, and only matching ones.
func TestLabelIndexUnderConcurrency(t *testing.T) {
	p := newPods(&Observer{})
	steady := newPod(labelled(aPod("ns1", "steady", "steady"), "a", "1"))
	p.put(steady)
	selector := selectorOf(t, "a in (1,2)")
	done := make(chan struct{})
	var reading sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				found, ok := p.matching("ns1", selector, bigCluster)
				names := map[string]bool{}
				for _, pod := range found {
					names[pod.Name] = true
				}
				if !ok || len(names) != len(found) || !names["steady"] {
					t.Errorf("%d pods of %d names, %v", len(found), len(names), ok)
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		p.put(newPod(randomPod(random)))
		p.drop("ns1", fmt.Sprint("p", random.IntN(40)))
	}
	close(done)
	reading.Wait()
}

// The removal of many pods frees the memory of their lists.
func TestLabelIndexShrinks(t *testing.T) {
	p := newPods(&Observer{})
	for i := range 1000 {
		p.put(newPod(labelled(aPod("ns1", fmt.Sprint("p", i), fmt.Sprint("u", i)), "a", "1")))
	}
	for i := range 990 {
		p.drop("ns1", fmt.Sprint("p", i))
	}
	for l, pods := range p.byLabel["ns1"] {
		list := pods.list
		if len(list) != 10 || cap(list) > 64 {
			t.Errorf("%q: %d pods in room for %d", l, len(list), cap(list))
		}
	}
}
