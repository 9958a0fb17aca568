package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
)

// A pod that was alive at a moment and is not listed as gone since is still alive, whatever
// happened.
func TestPodsGoneSinceAgainstAlive(t *testing.T) {
	v := &View{pods: newPods(&Observer{})}
	random := rand.New(rand.NewPCG(5, 6))
	const names, uids = 40, 3
	somePod := func() *corev1.Pod {
		name := fmt.Sprint("web-", random.IntN(names))
		return aPod("shop", name, fmt.Sprint(name, "/", random.IntN(uids)), fmt.Sprint("10.0.0.", 1+random.IntN(9)))
	}
	step := func() {
		switch p := somePod(); random.IntN(6) {
		case 0:
			v.pods.drop(p.Namespace, p.Name)
		case 1:
			v.pods.put(newPod(finished(p)))
		case 2:
			v.pods.replace([]*pod{newPod(p), newPod(somePod())})
		default:
			v.pods.put(newPod(p))
		}
	}
	lives := func() map[metric.Object]bool {
		all := map[metric.Object]bool{}
		for _, one := range v.pods.uidIndex {
			if v.Alive(one.Object()) {
				all[one.Object()] = true
			}
		}
		return all
	}
	for range 300 {
		for range random.IntN(60) {
			step()
		}
		_, since, _ := v.PodsGoneSince(0)
		were := lives()
		for range random.IntN(20) {
			step()
		}
		gone, now, ok := v.PodsGoneSince(since)
		if !ok || now-since != uint64(len(gone)) {
			t.Fatalf("%d went from %d to %d, ok %v", len(gone), since, now, ok)
		}
		for _, o := range gone {
			delete(were, o)
		}
		for o := range were {
			if !v.Alive(o) {
				t.Fatalf("%v was alive, is not, and is not among those who went", o)
			}
		}
	}
}

// A caller that asks too late, or with a moment that never was, has to check each pod.
func TestPodsGoneSinceIsBounded(t *testing.T) {
	v := &View{pods: newPods(&Observer{})}
	for i := range maxGonePods + 1 {
		v.pods.put(newPod(aPod("shop", "web", fmt.Sprint("u", i))))
	}
	if gone, now, ok := v.PodsGoneSince(0); !ok || now != maxGonePods || len(gone) != maxGonePods || gone[0].UID != "u0" {
		t.Errorf("%d went until %d, ok %v", len(gone), now, ok)
	}
	v.pods.drop("shop", "web")
	if gone, now, ok := v.PodsGoneSince(0); ok || gone != nil || now != maxGonePods+1 {
		t.Errorf("%d of too many until %d, ok %v", len(gone), now, ok)
	}
	if gone, _, ok := v.PodsGoneSince(1); !ok || gone[maxGonePods-1].UID != fmt.Sprint("u", maxGonePods) {
		t.Error("the last one is missing", ok)
	}
	if _, _, ok := v.PodsGoneSince(maxGonePods + 2); ok {
		t.Error("a moment that was not yet is known")
	}
}
