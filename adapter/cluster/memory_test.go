package cluster

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// bigCluster is Kubernetes' own limit of pods.
const bigCluster = 150_000

// clusterPod is the n-th pod of a big cluster: Deployments of ten pods, every fifth a StatefulSet's
// with its own labels, half of all with two addresses.
func clusterPod(n int) *corev1.Pod {
	app := fmt.Sprintf("service-%d", n/10)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", n/300),
			Name:      fmt.Sprintf("%s-7d9c5b%04x-%05x", app, n/10%65536, n),
			UID:       uuid.NewUUID(),
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": fmt.Sprintf("7d9c5b%04x", n/10%65536),
				"team": fmt.Sprintf("team-%d", n/300), "tier": "backend",
			},
			Annotations: map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"},
		},
		Spec: corev1.PodSpec{ServiceAccountName: app},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: fmt.Sprintf("192.168.%d.%d", n/30/250, n/30%250),
			PodIP: nthAddress(n).String(), PodIPs: []corev1.PodIP{{IP: nthAddress(n).String()}},
			ContainerStatuses: []corev1.ContainerStatus{
				{ContainerID: "containerd://" + hex64(2*n)}, {ContainerID: "containerd://" + hex64(2*n+1)},
			},
		},
	}
	if n/10%5 == 0 {
		delete(p.Labels, "pod-template-hash")
		p.Labels["statefulset.kubernetes.io/pod-name"] = p.Name
	}
	if n%2 == 0 {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: fmt.Sprintf("fd00:10:244::%x:%x", n>>16, n&0xffff)})
	}
	return p
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees interned strings that the first run unlinked
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestMemoryOfAPod(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the view with 150,000 pods")
	}
	before := heap()
	p := newPods(&Observer{})
	all := make([]*pod, bigCluster)
	for i := range all {
		all[i] = newPod(clusterPod(i))
	}
	p.replace(all)
	all = nil
	perPod := float64(heap()-before) / bigCluster
	t.Logf("%.0f bytes a pod in all indexes", perPod)
	if perPod > 1.2*1024 {
		t.Errorf("%.0f bytes a pod, want at most 1.2 KiB", perPod)
	}
	if p.count() != bigCluster || p.addresses.load(nthAddress(7)) == nil {
		t.Error("not all of them are known")
	}

	// Replacing every pod must not accumulate memory.
	for i := range bigCluster {
		one := clusterPod(i)
		one.UID = types.UID(fmt.Sprintf("%036d", i))
		p.put(newPod(one))
	}
	perPod = float64(heap()-before) / bigCluster
	t.Logf("%.0f bytes a pod after all were replaced", perPod)
	if perPod > 1.2*1024 {
		t.Errorf("%.0f bytes a pod after all were replaced, want at most 1.2 KiB", perPod)
	}
	runtime.KeepAlive(p)
}

// A ReplicaSet takes little memory: a large cluster keeps ten old ones for each Deployment.
func TestMemoryOfAReplicaSet(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the view with 150,000 ReplicaSets")
	}
	before := heap()
	r := newReplicaSets()
	for i := range bigCluster {
		deployment := ownedBy("Deployment", fmt.Sprintf("service-%d", i/10), fmt.Sprintf("%036d", i/10))
		replicaSet, _ := newReplicaSet(aReplicaSet(fmt.Sprintf("service-%d-%x", i/10, i), string(uuid.NewUUID()), deployment...))
		r.put(replicaSet)
	}
	each := float64(heap()-before) / bigCluster
	t.Logf("%.0f bytes a ReplicaSet, a tenth of a Deployment included", each)
	if each > 120 || len(r.owners) != bigCluster {
		t.Errorf("%.0f bytes a ReplicaSet, %d of them; want at most 120", each, len(r.owners))
	}
	runtime.KeepAlive(r)
}

func TestKeyOfAUID(t *testing.T) {
	if got := fmt.Sprintf("%x", newUIDKey("6f9619ff-8b86-4011-b42d-00c04fc964ff")); got != "6f9619ff8b864011b42d00c04fc964ff" {
		t.Errorf("%s: not the bytes that the UID says", got)
	}
	seen := map[uidKey]string{}
	for _, uid := range []string{"", "a", "6f9619ff-8b86-4011-b42d-00c04fc964f", "6f9619ff-8b86-4011-b42d-00c04fc964ff0", "6F9619FF-8B86-4011-B42D-00C04FC964FF"} {
		if other, twice := seen[newUIDKey(uid)]; twice {
			t.Errorf("%q and %q have one key", uid, other)
		}
		seen[newUIDKey(uid)] = uid
	}
}
