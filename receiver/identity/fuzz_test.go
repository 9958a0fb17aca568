package identity

import (
	"slices"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// For any claim of any sender: no panic, the same answer twice, sorted labels without duplicates,
// and no object that the trust mode forbids.
func FuzzDescribe(f *testing.F) {
	f.Add("pod:web-1,namespace:shop,a:b", "ci-c-web-1", "it-false,pu-uid-web-1", uint8(0))
	f.Add("sluice_object:ingresses/main,namespace:shop", "in-1,cid-x", "", uint8(1))
	f.Add("sluice_object:external/bank,a,a:b,,:", ",,ci-", "pu-", uint8(5))
	f.Add("sluice_object:namespaces/shop,dd.internal.entity_id:uid-9", "", "", uint8(9))
	f.Add("sluice_object:external", "", "", uint8(12))
	var names []string
	for name := range senders {
		names = append(names, name)
	}
	slices.Sort(names)
	f.Fuzz(func(t *testing.T, tags, container, external string, pick uint8) {
		trust := Open + Trust(pick%3)
		name := names[int(pick/3)%len(names)]
		sender := senders[name]
		r := New(clusterConfig(trust), known{}, world{})
		s := said{tags: tags, container: container, external: external}.sample(sender)
		first := told(r, &s)
		if again := told(r, &s); again != first {
			t.Fatalf("%s, then %s", first, again)
		}
		_ = r.Explain(&s)
		var d metric.Description
		if r.Describe(&s, &d) != metric.Applied {
			return
		}
		if !slices.IsSortedFunc(d.Labels, func(a, b metric.Label) int {
			if a.Key < b.Key {
				return -1
			}
			return 1
		}) {
			t.Fatalf("labels: %v", d.Labels)
		}
		if d.Object.Resource == pods && (d.Object.UID == "" || !d.ObjectLifetime || (world{}).PodWithUID(d.Object.UID) == nil) {
			t.Fatalf("a series on a pod that is not known: %+v", d)
		}
		if trust == Open || slices.Contains([]string{"agent", "agent6", "nginx", "newAgent", "outside"}, name) {
			return
		}
		if sender == nil || sender.Pod == nil {
			t.Fatalf("%s speaks of %s", name, d.Object)
		}
		own := d.Object == sender.Pod.Object()
		near := d.Object.Resource != pods && d.Object.Namespace == sender.Pod.Namespace ||
			d.Object.Resource == "namespaces" && d.Object.Name == sender.Pod.Namespace
		wide := d.Object.External() && d.Object.Namespace == "" && name == "writerPod"
		if !own && !wide && (trust == Strict || !near) {
			t.Fatalf("%s, %s: speaks of %s", name, trust, d.Object)
		}
	})
}
