package identity

import (
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// A sample without an address is sent by the pod that it names by UID or container, and may do what any pod may: a
// claim to be a trusted forwarder, or a writer, brings nothing, under any trust but open.
func TestClaimant(t *testing.T) {
	config := clusterConfig(Namespace)
	config.TrustedForwarders = append(config.TrustedForwarders, "unix")
	r := New(config, known{}, world{})
	for name, c := range map[string]struct {
		said   said
		claims bool
		want   string // empty: the sender is not known
	}{
		"a UID":               {said{tags: "dd.internal.entity_id:uid-web-1,a:b"}, true, "pods/web-1 in shop uid-web-1! {a=b}"},
		"OpenTelemetry's UID": {said{tags: "k8s.pod.uid:uid-web-1"}, true, "pods/web-1 in shop uid-web-1! {}"},
		"a container":         {said{container: "ci-c-web-1"}, true, "pods/web-1 in shop uid-web-1! {}"},
		"external data":       {said{external: "it-false,cn-web,pu-uid-web-1"}, true, "pods/web-1 in shop uid-web-1! {}"},
		"an object of its namespace": {said{tags: "sluice_object:ingresses.networking.k8s.io/main,dd.internal.entity_id:uid-web-1"}, true,
			"ingresses.networking.k8s.io/main in shop uid-shopmain! {}"},
		"a forwarder that names another pod": {said{tags: "pod:web-2,namespace:shop,dd.internal.entity_id:uid-nginx"}, true, "identity"},
		"a writer that writes cluster-wide":  {said{tags: "sluice_object:external,dd.internal.entity_id:uid-teller"}, true, "external in bank {}"},
		"a UID that nobody knows":            {said{tags: "dd.internal.entity_id:uid-9"}, true, ""},
		"a container that nobody knows":      {said{container: "ci-c-gone"}, true, ""},
		"names alone":                        {said{tags: "pod:web-1,namespace:shop"}, false, ""},
		"an inode, which says nothing here":  {said{container: "in-4711"}, false, ""},
		"nothing":                            {said{tags: "a:b"}, false, ""},
	} {
		s := c.said.sample(nil)
		sender, claims := r.Claimant(&s)
		if claims != c.claims || (sender == nil) != (c.want == "") {
			t.Errorf("%s: claims %v, %+v", name, claims, sender)
		}
		if s.Sender = sender; sender != nil {
			if got := told(r, &s); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	}
	one, other := metric.Sample{Container: []byte("ci-c-web-1")}, metric.Sample{Container: []byte("ci-c-web-2")}
	first, _ := r.Claimant(&one)
	if again, _ := r.Claimant(&one); again.Key != first.Key {
		t.Error("a pod has two keys")
	}
	if second, _ := r.Claimant(&other); second.Key == first.Key {
		t.Error("two pods have one key")
	}
}
