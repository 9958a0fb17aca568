package cluster

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

// senderIs names the owner of an address: a pod's UID, "nobody", or "unknown".
func senderIs(p *pods, address string) string {
	s := p.addresses.load(ip(address))
	switch {
	case s == nil:
		return "unknown"
	case s.Pod == nil && s.Known:
		return "nobody"
	case !s.Known || s.Key == 0 || s.Key>>63 != 0 || s.Address != ip(address):
		return fmt.Sprintf("a broken sender: %+v", *s)
	}
	return s.Pod.UID
}

func TestWhoHasAnAddress(t *testing.T) {
	del := func(p *pods, name string) { p.drop("shop", name) }
	put := func(p *pods, pod *corev1.Pod) { p.put(newPod(pod)) }
	for _, c := range []struct {
		name string
		do   func(*pods)
		want map[string]string
	}{
		{"every address of a pod", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "10.0.0.1", "fd00::1"))
		}, map[string]string{"10.0.0.1": "ua", "fd00::1": "ua", "10.0.0.2": "unknown"}},
		{"podIP without podIPs", func(p *pods) {
			one := aPod("shop", "a", "ua", "10.0.0.1")
			one.Status.PodIPs = nil
			put(p, one)
		}, map[string]string{"10.0.0.1": "ua"}},
		{"an IPv4 address in IPv6 form", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "::ffff:10.0.0.1"))
		}, map[string]string{"10.0.0.1": "ua"}},
		{"what is no address", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "somewhere", ""))
		}, map[string]string{"10.0.0.1": "unknown"}},
		{"the node of a pod", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "10.0.0.1"))
		}, map[string]string{"192.168.0.1": "nobody"}},
		{"the host's network", func(p *pods) {
			one := onHostNetwork(aPod("shop", "a", "ua", "192.168.0.1", "fd00::9"))
			one.Status.HostIPs = []corev1.HostIP{{IP: "192.168.0.1"}, {IP: "192.168.7.7"}}
			put(p, one)
		}, map[string]string{"192.168.0.1": "nobody", "fd00::9": "nobody", "192.168.7.7": "nobody"}},
		{"a node that pods have left", func(p *pods) {
			put(p, onHostNetwork(aPod("shop", "a", "ua", "192.168.0.1")))
			put(p, aPod("shop", "b", "ub", "10.0.0.1"))
			del(p, "a")
			del(p, "b")
		}, map[string]string{"192.168.0.1": "unknown", "10.0.0.1": "unknown"}},
		{"two pods", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "10.0.0.1"))
			put(p, aPod("shop", "b", "ub", "10.0.0.1"))
		}, map[string]string{"10.0.0.1": "nobody"}},
		{"two pods until the first goes", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "10.0.0.1"))
			put(p, aPod("shop", "b", "ub", "10.0.0.1"))
			del(p, "a")
		}, map[string]string{"10.0.0.1": "ub"}},
		{"two pods until the second finishes", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "10.0.0.1"))
			put(p, aPod("shop", "b", "ub", "10.0.0.1"))
			put(p, finished(aPod("shop", "b", "ub", "10.0.0.1")))
		}, map[string]string{"10.0.0.1": "ua"}},
		{"three pods, then one", func(p *pods) {
			for _, name := range []string{"a", "b", "c"} {
				put(p, aPod("shop", name, "u"+name, "10.0.0.1"))
			}
			del(p, "c")
			del(p, "a")
		}, map[string]string{"10.0.0.1": "ub"}},
		{"a pod and a node", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "192.168.0.1"))
		}, map[string]string{"192.168.0.1": "nobody"}},
		{"a pod on a former node", func(p *pods) {
			put(p, onHostNetwork(aPod("shop", "n", "un", "10.0.0.1")))
			put(p, aPod("shop", "a", "ua", "10.0.0.1"))
			del(p, "n")
		}, map[string]string{"10.0.0.1": "ua"}},
		{"an address beside a finished pod that had it", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "10.0.0.1"))
			put(p, finished(aPod("shop", "a", "ua", "10.0.0.1")))
			put(p, aPod("shop", "b", "ub", "10.0.0.1"))
		}, map[string]string{"10.0.0.1": "ub"}},
		{"a failed pod", func(p *pods) {
			one := aPod("shop", "a", "ua", "10.0.0.1")
			one.Status.Phase = corev1.PodFailed
			put(p, one)
		}, map[string]string{"10.0.0.1": "unknown", "192.168.0.1": "unknown"}},
		{"a pod of the same name", func(p *pods) {
			put(p, aPod("shop", "a", "u1", "10.0.0.1"))
			put(p, aPod("shop", "a", "u2", "10.0.0.2"))
		}, map[string]string{"10.0.0.1": "unknown", "10.0.0.2": "u2"}},
		{"a pod that got another address", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "10.0.0.1", "10.0.0.2"))
			put(p, aPod("shop", "a", "ua", "10.0.0.2", "10.0.0.3"))
		}, map[string]string{"10.0.0.1": "unknown", "10.0.0.2": "ua", "10.0.0.3": "ua"}},
		{"a list in which the address has changed hands", func(p *pods) {
			put(p, aPod("shop", "a", "ua", "10.0.0.1"))
			p.replace([]*pod{newPod(aPod("shop", "b", "ub", "10.0.0.1"))})
		}, map[string]string{"10.0.0.1": "ub"}},
		{"a terminating pod", func(p *pods) {
			one := aPod("shop", "a", "ua", "10.0.0.1")
			one.DeletionTimestamp = &one.CreationTimestamp
			put(p, one)
		}, map[string]string{"10.0.0.1": "ua"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPods(&Observer{})
			c.do(p)
			for address, want := range c.want {
				if got := senderIs(p, address); got != want {
					t.Errorf("%s is %s's, want %s", address, got, want)
				}
			}
		})
	}
}

func TestAPodOnTheHostsNetworkHasNoAddress(t *testing.T) {
	p := newPods(&Observer{})
	p.put(newPod(onHostNetwork(aPod("kube-system", "proxy", "u", "192.168.0.1"))))
	if pod := p.byUID("u"); pod == nil || len(pod.addresses) > 0 || len(p.contested) > 0 {
		t.Errorf("it is %+v, and %d addresses are contested", pod, len(p.contested))
	}
}

func TestKeyOfASender(t *testing.T) {
	p := newPods(&Observer{})
	key := func() uint64 { return p.addresses.load(ip("10.0.0.1")).Key }
	p.put(newPod(aPod("shop", "a", "ua", "10.0.0.1")))
	first := key()

	p.put(newPod(labelled(aPod("shop", "a", "ua", "10.0.0.1", "10.0.0.2"), "app", "web")))
	if key() != first {
		t.Error("another key though the pod kept the address")
	}
	p.replace([]*pod{newPod(labelled(aPod("shop", "a", "ua", "10.0.0.1", "10.0.0.2"), "app", "web"))})
	if key() != first {
		t.Error("another key after a list read anew")
	}
	p.put(newPod(annotated(aPod("shop", "a", "ua", "10.0.0.1"), AboutAnnotation, AboutExternal)))
	second := key()
	if second == first || !p.addresses.load(ip("10.0.0.1")).Pod.DefaultExternal {
		t.Error("the same key after the annotation changed")
	}
	p.put(newPod(aPod("shop", "a", "u2", "10.0.0.1")))
	if key() == second {
		t.Error("the same key though another pod has the address")
	}
	p.drop("shop", "a")
	p.put(newPod(aPod("shop", "a", "u2", "10.0.0.1")))
	if k := key(); k == first || k == second {
		t.Error("a key came again")
	}
}

// A pod's sender says whether another pod left its address within the last 30 s.
func TestReusedAddress(t *testing.T) {
	put := func(p *pods, name, address string) { p.put(newPod(aPod("shop", name, "uid-"+name, address))) }
	for name, c := range map[string]struct {
		do   func(p *pods)
		want bool
	}{
		"its first holder": {func(p *pods) { put(p, "b", "10.0.0.1") }, false},
		"the same pod, changed": {func(p *pods) {
			put(p, "b", "10.0.0.1")
			p.put(newPod(labelled(aPod("shop", "b", "uid-b", "10.0.0.1"), "app", "web")))
		}, false},
		"another just went": {func(p *pods) {
			put(p, "a", "10.0.0.1")
			p.drop("shop", "a")
			time.Sleep(reusedWithin - 1)
			put(p, "b", "10.0.0.1")
		}, true},
		"another just ended": {func(p *pods) {
			put(p, "a", "10.0.0.1")
			p.put(newPod(finished(aPod("shop", "a", "uid-a", "10.0.0.1"))))
			put(p, "b", "10.0.0.1")
		}, true},
		"in one list": {func(p *pods) {
			put(p, "a", "10.0.0.1")
			p.replace([]*pod{newPod(aPod("shop", "b", "uid-b", "10.0.0.1"))})
		}, true},
		"another of its name": {func(p *pods) {
			put(p, "b", "10.0.0.1")
			p.put(newPod(aPod("shop", "b", "uid-b2", "10.0.0.1")))
		}, true},
		"both for a while": {func(p *pods) {
			put(p, "a", "10.0.0.1")
			put(p, "b", "10.0.0.1")
			p.drop("shop", "a")
		}, true},
		"another went earlier": {func(p *pods) {
			put(p, "a", "10.0.0.1")
			p.drop("shop", "a")
			time.Sleep(reusedWithin)
			put(p, "b", "10.0.0.1")
		}, false},
		"another went elsewhere": {func(p *pods) {
			put(p, "a", "10.0.0.2")
			p.drop("shop", "a")
			put(p, "b", "10.0.0.1")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPods(&Observer{})
				c.do(p)
				if s := p.addresses.load(ip("10.0.0.1")); s == nil || s.Pod == nil || s.Pod.Name != "b" || s.Reused != c.want {
					t.Errorf("%+v, want reused %t", s, c.want)
				}
			})
		})
	}
}

// The sender of an address says when its pod's first container started: what came to the address before came from
// another pod, however long ago the pod was created.
func TestStartOfASender(t *testing.T) {
	at := func(second int64) metav1.Time { return metav1.Unix(second, 0) }
	running := func(second int64) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(second)}}
	}
	ended := func(second int64) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(second)}}
	}
	sandbox := func(status corev1.ConditionStatus, second int64) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: status, LastTransitionTime: at(second)}}
	}
	waiting := []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   int64
	}{
		"nothing is known":  {corev1.PodStatus{}, 0},
		"one container":     {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: running(7)}}}, 7},
		"the first of them": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: running(9)}, {State: running(8)}}}, 8},
		"it was restarted":  {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: running(9), LastTerminationState: ended(7)}}}, 7},
		"init containers": {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{State: ended(6)}},
			ContainerStatuses: waiting}, 6},
		"an image is pulled":   {corev1.PodStatus{Conditions: sandbox(corev1.ConditionTrue, 5), ContainerStatuses: waiting}, 5},
		"started after that":   {corev1.PodStatus{Conditions: sandbox(corev1.ConditionTrue, 8), ContainerStatuses: []corev1.ContainerStatus{{State: running(7)}}}, 7},
		"there was no sandbox": {corev1.PodStatus{Conditions: sandbox(corev1.ConditionFalse, 5), ContainerStatuses: waiting}, 0},
	} {
		pod, p := aPod("shop", "b", "uid-b", "10.0.0.1"), newPods(&Observer{})
		c.status.PodIP = "10.0.0.1"
		pod.Status = c.status
		p.put(newPod(pod))
		if s := p.addresses.load(ip("10.0.0.1")); s == nil || s.Started != c.want {
			t.Errorf("%s: %+v, want a start at %d", name, s, c.want)
		}
	}
}

func TestPodsAreFound(t *testing.T) {
	p := newPods(&Observer{})
	one := annotated(aPod("shop", "a", "ua"), AboutAnnotation, "itself")
	one.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", ContainerID: "containerd://" + hex64(1)}, {}}
	one.Spec.NodeName = "a"
	one.Status.InitContainerStatuses = []corev1.ContainerStatus{{ContainerID: "cri-o://" + hex64(2)}}
	one.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{ContainerID: "docker://short-id"}}
	p.put(newPod(one))
	want := metric.Pod{Namespace: "shop", Name: "a", UID: "ua", ServiceAccount: "runner"}
	for what, got := range map[string]*pod{
		"name":                    p.byName("shop", "a"),
		"UID":                     p.byUID("ua"),
		"container":               p.byContainer(hex64(1)),
		"container with prefix":   p.byContainer("containerd://" + hex64(1)),
		"init container":          p.byContainer(hex64(2)),
		"ephemeral, no hex digit": p.byContainer("short-id"),
	} {
		if got == nil || *got.Pod != want {
			t.Errorf("by %s: %+v", what, got)
		}
	}
	view := &View{pods: p}
	if c, node, ok := view.ContainerNamed(hex64(1)); !ok || c != (metric.Container{Namespace: "shop", Pod: "a", Name: "web"}) || node != "a" {
		t.Errorf("the container is %+v on %q: %v", c, node, ok)
	}
	if _, _, ok := view.ContainerNamed(hex64(4)); ok {
		t.Error("a container that there is not has a name")
	}
	one.Status.ContainerStatuses[0].ContainerID = "containerd://" + hex64(3) // it crashed
	before := p.byName("shop", "a").Pod
	p.put(newPod(one))
	if p.byContainer(hex64(1)) != nil || p.byContainer(hex64(3)) == nil {
		t.Error("a restarted container is not found by its new ID alone")
	}
	if p.byName("shop", "a").Pod != before {
		t.Error("another metric.Pod though nothing in it changed")
	}
	p.put(newPod(finished(one)))
	if p.byName("shop", "a") != nil || p.byUID("ua") != nil || p.byContainer(hex64(2)) != nil || p.count() != 0 {
		t.Error("a finished pod is found")
	}
	if len(p.byKey)+len(p.containerIndex)+len(p.nodeAddresses)+len(p.contested)+p.addresses.live != 0 {
		t.Error("something of it stays")
	}
}

// A pod that leaves takes no container's ID with it that another pod has taken over.
func TestContainerOfAnotherPodStays(t *testing.T) {
	p := newPods(&Observer{})
	for _, name := range []string{"a", "b"} {
		pod := aPod("shop", name, "u"+name)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{ContainerID: "containerd://" + hex64(1)}}
		p.put(newPod(pod))
	}
	p.drop("shop", "a")
	if pod := p.byContainer(hex64(1)); pod == nil || pod.Name != "b" {
		t.Errorf("the container is that of %+v, want b", pod)
	}
	p.drop("shop", "b")
	if len(p.containerIndex) != 0 {
		t.Error("its ID stays")
	}
}

func TestWhatIsToldOfPods(t *testing.T) {
	heard := &told{}
	o := heard.observer()
	p := newPods(&o)
	expect := func(what string, known, gone int) {
		t.Helper()
		if k, g, _, _ := heard.count(); k != known || g != gone {
			t.Errorf("%s: told %d times of known ones, want %d, and %d gone, want %d", what, k, known, g, gone)
		}
	}
	p.put(newPod(aPod("shop", "a", "ua")))
	expect("a pod without an address", 1, 0)
	p.put(newPod(aPod("shop", "a", "ua", "10.0.0.1")))
	expect("its address", 2, 0)
	if last := heard.known[1]; !slices.Equal(last, []netip.Addr{ip("10.0.0.1")}) {
		t.Errorf("told of %v", last)
	}
	p.put(newPod(labelled(aPod("shop", "a", "ua", "10.0.0.1"), "app", "web")))
	expect("a label", 2, 0)
	p.put(newPod(aPod("shop", "a", "u2", "10.0.0.1")))
	expect("another pod of its name", 3, 1)
	p.put(newPod(finished(aPod("shop", "a", "u2", "10.0.0.1"))))
	expect("its end", 3, 2)
	p.drop("shop", "a")
	expect("the finished pod deleted", 3, 2)
	p.replace([]*pod{newPod(aPod("shop", "b", "ub", "10.0.0.1")), newPod(aPod("shop", "c", "uc", "10.0.0.2"))})
	expect("a list", 4, 2)
	if last := heard.known[3]; len(last) != 3 { // including the node's, which no pod had named since
		t.Errorf("told of %v", last)
	}
	p.replace([]*pod{newPod(aPod("shop", "c", "uc", "10.0.0.2"))})
	expect("a list without b", 4, 3)
	if want := (metric.Object{Resource: "pods", Namespace: "shop", Name: "a", UID: "u2"}); heard.gone[1] != want {
		t.Errorf("told of %+v", heard.gone[1])
	}
}

// Concurrent reads while pods appear, disappear and swap addresses: an answered pod had the address
// at some time, and an address that one pod keeps always has the same answer.
func TestSendersUnderConcurrency(t *testing.T) {
	const addresses, rounds, readers = 500, 20_000, 3
	p := newPods(&Observer{})
	steady := aPod("shop", "steady", "steady", "10.9.9.9")
	p.put(newPod(steady))
	at := func(i int) string { return fmt.Sprintf("10.1.%d.%d", i/250, i%250) }
	stop := make(chan struct{})
	var reading sync.WaitGroup
	for range readers {
		reading.Go(func() {
			for random := rand.New(rand.NewPCG(1, 2)); ; {
				select {
				case <-stop:
					return
				default:
				}
				if s := p.addresses.load(ip("10.9.9.9")); s == nil || s.Pod == nil || s.Pod.UID != "steady" || s.Key != 1 && s.Key != 2 {
					t.Errorf("the steady pod's address is answered with %+v", s)
					return
				}
				asked := ip(at(random.IntN(addresses)))
				if s := p.addresses.load(asked); s != nil && (s.Key == 0 || s.Address != asked || !s.Known) {
					t.Errorf("%s is answered with %+v", asked, s)
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(3, 4))
	for i := range rounds {
		name := fmt.Sprint("p", random.IntN(addresses))
		if random.IntN(3) == 0 {
			p.drop("shop", name)
			continue
		}
		p.put(newPod(aPod("shop", name, fmt.Sprint("u", i), at(random.IntN(addresses)))))
	}
	close(stop)
	reading.Wait()
	checkAgainstPods(t, p)
}

// checkAgainstPods compares the addresses with those of the pods.
func checkAgainstPods(t *testing.T, p *pods) {
	t.Helper()
	holders := map[netip.Addr][]*pod{}
	for _, one := range p.uidIndex {
		for _, a := range one.addresses {
			holders[a] = append(holders[a], one)
		}
	}
	live := len(p.nodeAddresses)
	for a, holder := range holders {
		live++
		want := "nobody"
		if len(holder) == 1 {
			want = holder[0].UID
		}
		if got := senderIs(p, a.String()); got != want {
			t.Errorf("%s is %s's, want %s", a, got, want)
		}
	}
	if p.addresses.live != live {
		t.Errorf("%d addresses are known, want %d", p.addresses.live, live)
	}
}
