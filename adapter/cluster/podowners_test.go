package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	servicesPath       = "/api/v1/services"
	endpointSlicesPath = "/apis/discovery.k8s.io/v1/endpointslices"
)

// ownersOf lists the pods of objects of "shop", as "name: pod pod (ready pod)", or the error.
func (v *View) ownersOf(t *testing.T, resource, name string) string {
	t.Helper()
	owners, err := v.PodOwners(resource, "shop", name)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, owner := range owners {
		var pods, ready []string
		for o := range owner.Pods.All {
			pods = append(pods, o.Name)
		}
		for o := range owner.Pods.Ready {
			ready = append(ready, o.Name)
		}
		slices.Sort(pods)
		slices.Sort(ready)
		if len(pods) != owner.Pods.Len || owner.Object.Resource != resource || owner.Object.Namespace != "shop" {
			t.Errorf("%v: %d pods", owner.Object, owner.Pods.Len)
		}
		all = append(all, fmt.Sprintf("%s%s: %s (%s)", owner.Object.Name, owner.Object.UID, strings.Join(pods, " "), strings.Join(ready, " ")))
	}
	return strings.Join(all, "; ")
}

func podOfJob(name, job, uid string) *corev1.Pod {
	p := podOfController(name, "Job", job, uid)
	p.OwnerReferences[1].APIVersion = "batch/v1"
	return p
}

// unready makes a pod that passes no readiness check.
func unready(p *corev1.Pod) *corev1.Pod {
	p.Status.Conditions = nil
	return p
}

// Pods belong to the workloads that their owner references name, whatever selectors match.
func TestPodOwnersByOwnerReferences(t *testing.T) {
	s := newAPIServer(t)
	s.serve(deploymentsPath, "Deployment")
	s.serve("/apis/apps/v1/statefulsets", "StatefulSet")
	s.serve("/apis/batch/v1/jobs", "Job")
	s.serve("/apis/apps.kruise.io/v1/statefulsets", "StatefulSet")
	s.serve("/apis/argoproj.io/v1alpha1/rollouts", "Rollout")
	s.put(deploymentsPath, aDeployment("shop", "web", "-d1"))
	s.put(deploymentsPath, aDeployment("shop", "twin", "-d2")) // its selector matches web's pods, too
	for _, rs := range []*metav1.PartialObjectMetadata{
		aReplicaSet("web-1", "rs1", ownedBy("Deployment", "web", "-d1")...),
		aReplicaSet("web-2", "rs2", ownedBy("Deployment", "web", "-d1")...), // of a rollout
		aReplicaSet("web-3", "rs3"),                                         // orphaned
		aReplicaSet("web-4", "rs4", ownedBy("Deployment", "web", "-d0")...), // of the web before
		aReplicaSet("canary-1", "rs5", metav1.OwnerReference{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "canary", UID: "r", Controller: new(true)}),
	} {
		s.put(replicaSetsPath, rs)
	}
	custom := podOfController("c-0", "StatefulSet", "db", "k")
	custom.OwnerReferences[1].APIVersion, custom.CreationTimestamp = "apps.kruise.io/v1", metav1.Unix(2000, 0)
	for _, p := range []*corev1.Pod{
		podOfController("a-1", "ReplicaSet", "web-1", "rs1"),
		unready(podOfController("a-2", "ReplicaSet", "web-1", "rs1")),
		podOfController("b-1", "ReplicaSet", "web-2", "rs2"),
		podOfController("o-1", "ReplicaSet", "web-3", "rs3"),
		podOfController("x-1", "ReplicaSet", "web-4", "rs4"),
		finished(podOfController("a-3", "ReplicaSet", "web-1", "rs1")),
		podOfController("r-1", "ReplicaSet", "canary-1", "rs5"),
		podOfController("db-0", "StatefulSet", "db", "s"),
		podOfJob("j-1", "import", "j"),
		custom,
		labelled(aPod("shop", "loose", "u-loose"), "app", "web-1"),
	} {
		s.put(podsPath, p)
	}
	v := s.view(t, "deployments.apps")
	v.waitSynced(t)
	for _, c := range []struct{ resource, name, want string }{
		{"deployments.apps", "web", "web-d1: a-1 a-2 b-1 (a-1 b-1)"},
		{"deployments.apps", "twin", ""},
		{"deployments.apps", "*", "web-d1: a-1 a-2 b-1 (a-1 b-1)"},
		{"replicasets.apps", "web-1", "web-1: a-1 a-2 (a-1)"},
		{"replicasets.apps", "web-3", "web-3: o-1 (o-1)"},
		{"statefulsets.apps", "db", "db: db-0 (db-0)"},
		{"statefulsets.apps.kruise.io", "db", "db: c-0 (c-0)"},
		{"rollouts.argoproj.io", "canary", "canary: r-1 (r-1)"},
		{"jobs.batch", "import", "import: j-1 (j-1)"},
		{"jobs.batch", "export", ""},
		{"gadgets.example.com", "x", ""},
	} {
		if got := v.ownersOf(t, c.resource, c.name); got != c.want {
			t.Errorf("%s/%s: %q, want %q", c.resource, c.name, got, c.want)
		}
	}
	// A pod is adopted, another released, and a ReplicaSet is orphaned.
	s.put(podsPath, podOfController("loose", "ReplicaSet", "web-2", "rs2"))
	released := podOfController("a-1", "ReplicaSet", "web-1", "rs1")
	released.OwnerReferences = nil
	s.put(podsPath, released)
	eventually(t, "that a pod is adopted and another released", func() bool {
		return v.ownersOf(t, "deployments.apps", "web") == "web-d1: a-2 b-1 loose (b-1 loose)"
	})
	s.put(replicaSetsPath, aReplicaSet("web-2", "rs2"))
	eventually(t, "that a ReplicaSet is orphaned", func() bool { return v.ownersOf(t, "deployments.apps", "web") == "web-d1: a-2 ()" })
	// A Deployment of the same name is another one.
	s.put(deploymentsPath, aDeployment("shop", "web", "-d3"))
	eventually(t, "that web is another Deployment", func() bool { return v.ownersOf(t, "deployments.apps", "web") == "" })
}

// Each pod is found by its controller, whatever came and went before.
func TestControllerIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(60, 1))
	held, model := newPods(&Observer{}), map[string]string{}
	for range 5000 {
		name := fmt.Sprintf("p-%d", random.IntN(40))
		if random.IntN(3) == 0 {
			delete(model, name)
			held.drop("shop", name)
		} else {
			model[name] = fmt.Sprintf("rs-%d", random.IntN(5))
			held.put(newPod(podOfController(name, "ReplicaSet", model[name], model[name])))
		}
		n := 0
		for workload, pods := range held.grouped("shop", func(w metric.Workload, _ uidKey) (metric.Workload, bool) { return w, true }) {
			for _, p := range pods {
				if n++; model[p.Name] != workload.Name {
					t.Fatalf("%s is of %s, want %s", p.Name, workload.Name, model[p.Name])
				}
			}
		}
		if n != len(model) {
			t.Fatalf("%d pods, want %d", n, len(model))
		}
	}
}

// The ReplicaSets of an owner are those that name it now.
func TestReplicaSetsOfAnOwner(t *testing.T) {
	random := rand.New(rand.NewPCG(60, 2))
	held, model := newReplicaSets(), map[string]string{}
	for range 3000 {
		name, owner := fmt.Sprintf("rs-%d", random.IntN(20)), fmt.Sprintf("d-%d", random.IntN(4))
		switch random.IntN(4) {
		case 0:
			delete(model, name)
			held.dropUID(newUIDKey(name))
		case 1: // orphaned
			model[name] = ""
			r, _ := newReplicaSet(aReplicaSet(name, name))
			held.put(r)
		default:
			model[name] = owner
			r, _ := newReplicaSet(aReplicaSet(name, name, ownedBy("Deployment", owner, owner)...))
			held.put(r)
		}
		for i := range 4 {
			owner, n := fmt.Sprintf("d-%d", i), 0
			got := held.ownedBy(newUIDKey(owner))
			for name, of := range model {
				if of == owner {
					if n++; !slices.Contains(got, newUIDKey(name)) {
						t.Fatalf("%s is not among those of %s", name, owner)
					}
				}
			}
			if n != len(got) {
				t.Fatalf("%d of %s, want %d", len(got), owner, n)
			}
		}
	}
}

// Of an unwatched kind, the pods of the youngest object of a name count.
func TestPodOwnersOfAnUnwatchedKind(t *testing.T) {
	s := newAPIServer(t)
	s.serve("/apis/batch/v1/jobs", "Job")
	before, now := podOfJob("old", "import", "j0"), podOfJob("new", "import", "j1")
	before.CreationTimestamp, now.CreationTimestamp = metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	s.put(podsPath, now)
	s.put(podsPath, before)
	v := s.view(t)
	v.waitSynced(t)
	if got := v.ownersOf(t, "jobs.batch", "import"); got != "import: new (new)" {
		t.Error(got)
	}
}

func TestPodOwnersWithoutReplicaSets(t *testing.T) {
	s := newAPIServer(t)
	s.serve(deploymentsPath, "Deployment")
	s.forbid(replicaSetsPath, true)
	s.put(deploymentsPath, aDeployment("shop", "web", "d"))
	s.put(podsPath, podOfController("a-1", "ReplicaSet", "web-1", "rs1"))
	v := s.view(t, "deployments.apps")
	v.waitSynced(t)
	_, err := v.PodOwners("deployments.apps", "shop", "web")
	if !errors.Is(err, metric.ErrNotReady) || !strings.Contains(err.Error(), "ClusterRole") {
		t.Errorf("%v", err)
	}
	if got := v.ownersOf(t, "replicasets.apps", "web-1"); got != "web-1: a-1 (a-1)" {
		t.Error(got)
	}
}

func anEndpointSlice(name, service string, pods ...string) *discoveryv1.EndpointSlice {
	e := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{}}}
	if service != "" {
		e.Labels[discoveryv1.LabelServiceName] = service
	}
	for _, name := range pods {
		e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{
			Kind: "Pod", Namespace: "shop", Name: name, UID: types.UID("u-" + name)}})
	}
	return e
}

// The pods of a Service are the targets of its EndpointSlices, which are watched from the first
// question on.
func TestPodOwnersOfServices(t *testing.T) {
	s := newAPIServer(t)
	s.serve(servicesPath, "Service")
	s.serve(endpointSlicesPath, "EndpointSlice")
	for _, name := range []string{"web", "manual", "none", "external"} {
		s.put(servicesPath, aDeployment("shop", name, "-s"))
	}
	for _, name := range []string{"a", "b", "c", "gone", "other"} {
		s.put(podsPath, podOfController(name, "ReplicaSet", "web-1", "rs1"))
	}
	stranger := podOfController("stranger", "ReplicaSet", "web-1", "rs1")
	stranger.Namespace, stranger.UID = "bank", "u-stranger"
	s.put(podsPath, stranger)
	s.put(podsPath, unready(podOfController("c", "ReplicaSet", "web-1", "rs1")))
	conditions := anEndpointSlice("web-v4", "web", "a", "b", "c", "gone", "never")
	conditions.Endpoints[2].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Terminating: new(true)}
	s.put(endpointSlicesPath, conditions)
	s.put(endpointSlicesPath, anEndpointSlice("web-v6", "web", "a", "b", "c")) // dual stack
	manual := anEndpointSlice("manual-1", "manual", "other", "stranger", "a")  // of a Service without a selector
	manual.Endpoints[1].TargetRef.Namespace = "bank"
	manual.Endpoints[2].TargetRef.Kind = "VirtualMachine"
	manual.Endpoints = append(manual.Endpoints, discoveryv1.Endpoint{Addresses: []string{"192.0.2.1"}})
	s.put(endpointSlicesPath, manual)
	lost := anEndpointSlice("liar", "manual", "stranger") // its UID is that of another namespace's pod
	s.put(endpointSlicesPath, lost)
	s.put(endpointSlicesPath, anEndpointSlice("nobody", "", "a"))
	s.put(endpointSlicesPath, anEndpointSlice("late", "deleted", "a"))
	v := s.view(t, "services")
	v.waitSynced(t)
	if n := s.listed(endpointSlicesPath); n != 0 {
		t.Errorf("EndpointSlices were listed %d times before the first question", n)
	}
	if owners, err := v.PodOwners("services", "shop", "nothing"); err != nil || len(owners) > 0 || v.endpoints.isWanted() {
		t.Errorf("a Service that doesn't exist: %v %v", owners, err)
	}
	if _, err := v.PodOwners("services", "shop", "web"); !errors.Is(err, metric.ErrNotReady) {
		t.Errorf("at once: %v", err)
	}
	eventually(t, "that EndpointSlices are known", func() bool {
		_, err := v.PodOwners("services", "shop", "web")
		return err == nil
	})
	if ok, text := v.Synced(); !ok {
		t.Errorf("the view is no longer synced: %s", text)
	}
	s.remove(podsPath, podOfController("gone", "ReplicaSet", "web-1", "rs1"))
	eventually(t, "that a pod is gone", func() bool { return v.pods.byUID("u-gone") == nil })
	for name, want := range map[string]string{
		"web": "web-s: a b c (a b)", "manual": "manual-s: other (other)", "none": "", "deleted": "",
		"*": "manual-s: other (other); web-s: a b c (a b)",
	} {
		if got := v.ownersOf(t, "services", name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	s.remove(endpointSlicesPath, anEndpointSlice("web-v4", "web"))
	s.put(endpointSlicesPath, anEndpointSlice("web-v6", "web", "b"))
	s.put(endpointSlicesPath, anEndpointSlice("manual-1", "none", "other"))
	eventually(t, "that slices have changed", func() bool {
		return v.ownersOf(t, "services", "*") == "none-s: other (other); web-s: b (b)"
	})
	s.remove(endpointSlicesPath, anEndpointSlice("web-v6", "web"))
	eventually(t, "that the last slice is gone", func() bool { return v.ownersOf(t, "services", "web") == "" })
}

func TestEndpointSlicesMayBeForbidden(t *testing.T) {
	s := newAPIServer(t)
	s.serve(endpointSlicesPath, "EndpointSlice")
	s.serve(servicesPath, "Service")
	s.put(servicesPath, aDeployment("shop", "web", "-s"))
	s.forbid(endpointSlicesPath, true)
	v := s.view(t, "services")
	v.waitSynced(t)
	eventually(t, "that the error names the right", func() bool {
		_, err := v.PodOwners("services", "shop", "web")
		return errors.Is(err, metric.ErrNotReady) && strings.Contains(err.Error(), `resources ["endpointslices"]`)
	})
}

// UIDs of no pods, which whoever writes EndpointSlices chooses, take nothing of an answer.
func TestUIDsOfNoPodsTakeNothing(t *testing.T) {
	p := newPods(&Observer{})
	p.put(newPod(aPod("shop", "web", "uid-web")))
	made := &endpointSlice{namespace: "shop", name: "a", service: "web", pods: []uidKey{newUIDKey("uid-web")}}
	for i := range 10_000 {
		made.pods = append(made.pods, newUIDKey(fmt.Sprint("made-up-", i)))
	}
	all := []*endpointSlice{made, made}
	if found := p.behind("shop", all); len(found) != 1 {
		t.Errorf("%d pods, want one", len(found))
	}
	if n := testing.AllocsPerRun(10, func() { p.behind("shop", all) }); n > 5 {
		t.Errorf("an answer takes %g allocations", n)
	}
}
