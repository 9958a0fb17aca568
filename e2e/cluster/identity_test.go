package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Samples that a pod sends before its address is in the API are credited to it later, and to nobody
// until then.
func creditsFirstDatagrams(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "early")
	release := c.Kubelet.Hold(ns)
	c.Apply(t, ns, podManifest("early", "default"))
	address := c.Kubelet.Address(t, ns, "early")
	for range 3 {
		c.sendFrom(t, address, "started:1|c\nboot:250|ms\nphase:2|g")
		time.Sleep(700 * time.Millisecond)
	}
	if got, err := c.values(t, "/namespaces/"+ns+"/pods/*/started:total"); err == nil {
		t.Errorf("before the address is known there is %v", got)
	}
	release()
	c.AwaitPods(t, ns, "app=early", 1)
	for metric, want := range map[string]float64{"started:total": 3, "boot:count": 3, "phase": 2} {
		c.wantValues(t, "/namespaces/"+ns+"/pods/*/"+metric, map[string]float64{"early": want})
	}
}

// The next sample from an address that another pod has now is that pod's; of what the one before
// had nothing is left, not even where both have the same name.
func creditsTheNextHolderOfAnAddress(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "reused")
	first := c.pod(t, ns, "web-0", "default")
	address := addressOf(t, first)
	c.sendFrom(t, address, "hits:7|c")
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/hits:total", map[string]float64{"web-0": 7})
	c.deletePod(t, ns, "web-0")
	if got, err := c.values(t, "/namespaces/"+ns+"/pods/*/hits:total"); err == nil {
		t.Errorf("the very next answer after the pod's end holds %v", got)
	} else if !strings.Contains(err.Error(), "hits") {
		t.Errorf("the message does not say what is missing: %v", err)
	}
	// Samples that still come from the address are pending: its next holder does not exist yet.
	c.sendFrom(t, address, "ghost:666|g\nhits:666|c")
	time.Sleep(4 * time.Second) // more than clocks may differ by
	for _, name := range []string{"other", "web-0"} {
		c.Kubelet.Choose(ns, address)
		if again := c.pod(t, ns, name, "default"); addressOf(t, again) != address {
			t.Fatalf("%s has %s, want %s", name, again.Status.PodIP, address)
		}
		c.sendFrom(t, address, "hits:2|c")
		c.wantValues(t, "/namespaces/"+ns+"/pods/*/hits:total", map[string]float64{name: 2})
		if got, err := c.values(t, "/namespaces/"+ns+"/pods/*/ghost"); err == nil {
			t.Errorf("what came before %s was made is credited to it: %v", name, got)
		}
		c.deletePod(t, ns, name)
	}
}

// deletePod returns when the API does not have it any more.
func (c *cluster) deletePod(t *testing.T, namespace, name string) {
	t.Helper()
	pods := c.Kubernetes.CoreV1().Pods(namespace)
	pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	within(t, func() error {
		if _, err := pods.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			return errors.New("the pod is still there")
		}
		if known, err := c.knows(t, *pod); err != nil || known {
			return fmt.Errorf("the address of the deleted pod is known: %v, %v", known, err)
		}
		return nil
	})
}

// awaitSender waits until Sluice credits to a pod what it sends.
func (c *cluster) awaitSender(t *testing.T, namespace, name string) {
	t.Helper()
	pod, err := c.Kubernetes.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	within(t, func() error {
		if status, text, err := c.askAbsent(t, *pod); err != nil || status == http.StatusServiceUnavailable {
			return fmt.Errorf("the address of pod %s: %d %s, %v", name, status, text, err)
		}
		return nil
	})
}

// knows reports whether Sluice knows which pod has the address of this one: it answers a sender that it
// does not know with 503.
func (c *cluster) knows(t *testing.T, pod core.Pod) (bool, error) {
	t.Helper()
	status, _, err := c.askAbsent(t, pod)
	return status != http.StatusServiceUnavailable, err
}

// askAbsent asks, as a pod, for a metric of the pod that nobody pushes.
func (c *cluster) askAbsent(t *testing.T, pod core.Pod) (status int, text string, err error) {
	t.Helper()
	return c.ask(t, addressOf(t, pod), http.MethodGet, "/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name+"/absent", "")
}

// A pod speaks of itself, and of what is in its namespace and no pod; never of another pod, nor of
// another namespace.
func believesNoStranger(t *testing.T, c *cluster) {
	ns, other := c.Namespace(t, "mine"), c.Namespace(t, "yours")
	me, victim := addressOf(t, c.pod(t, ns, "me", "default")), addressOf(t, c.pod(t, other, "victim", "default"))
	neighbour := c.pod(t, ns, "neighbour", "default")
	c.sendFrom(t, victim, "load:1|g\nshared:1|g|#sluice_object:external")
	before := c.sluice.Metrics()[`sluice_samples_rejected_total{reason="identity",receiver="statsd_udp"}`]
	claims := []string{
		"load:666|g|#pod:victim,namespace:" + other,
		"load:666|g|#sluice_object:pods/victim,namespace:" + other,
		"load:666|g|#k8s.pod.name:neighbour,k8s.namespace.name:" + ns,
		"load:666|g|#dd.internal.entity_id:" + string(neighbour.UID),
		"load:666|g|c:ci-" + containerID(neighbour),
		"shared:666|g|#sluice_object:external/" + other,
		"shared:666|g|#sluice_object:namespaces/" + other,
		"shared:666|g|#sluice_object:nodes/node",
		"shared:666|g|#sluice_object:deployments.apps/none",
	}
	for _, claim := range claims {
		c.sendFrom(t, me, claim)
	}
	c.sendFrom(t, me, "load:3|g\nown:4|g|#sluice_object:external\nown:5|g|#sluice_object:namespaces/"+ns)
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/load", map[string]float64{"me": 3})
	c.wantValues(t, "/namespaces/"+ns+"/metrics/own", map[string]float64{ns: 5})
	c.wantValues(t, "/namespaces/"+other+"/pods/*/load", map[string]float64{"victim": 1})
	if body, err := c.Get(t.Context(), external+"/namespaces/"+other+"/shared"); err != nil || !strings.Contains(string(body), `"value":"1"`) {
		t.Errorf("%s, %v", body, err)
	}
	if refused := c.sluice.Metrics()[`sluice_samples_rejected_total{reason="identity",receiver="statsd_udp"}`] - before; refused < float64(len(claims)) {
		t.Errorf("%v samples were refused for identity, want the %d claims", refused, len(claims))
	}
	c.wantEvent(t, ns, "me", `metric "load" is rejected`, "may only describe")
	// A claim of an object that did not exist is believed once the object exists.
	c.sendFrom(t, me, "late:1|g|#sluice_object:services/late")
	c.Apply(t, ns, "apiVersion: v1\nkind: Service\nmetadata: {name: late}\nspec: {ports: [{port: 80}]}\n")
	within(t, func() error {
		c.sendFrom(t, me, "late:1|g|#sluice_object:services/late")
		_, err := c.values(t, "/namespaces/"+ns+"/services/late/late")
		return err
	})
	c.push(t, me, "PUT", "/v1/namespaces/"+other+"/pods/victim/load", "666", 403)
	c.push(t, me, "GET", "/v1/namespaces/"+other+"/pods/victim/load", "", 401) // an account may have the right to read it
	c.push(t, me, "DELETE", "/v1/namespaces/"+other+"/pods/victim/load", "", 403)
}

func containerID(pod core.Pod) string {
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}

// A pod names its controller itself. One of another namespace that names this namespace's, by its UID, takes no zeros from
// the pods of that one.
func believesNoStrangersController(t *testing.T, c *cluster) {
	ns, other := c.Namespace(t, "controlled"), c.Namespace(t, "claiming")
	c.Apply(t, ns, strings.Replace(deployment("web"), "replicas: 1", "replicas: 2", 1))
	pods := c.AwaitPods(t, ns, "app=web", 2)
	for _, pod := range pods {
		c.awaitSender(t, ns, pod.Name)
	}
	c.sendFrom(t, addressOf(t, pods[0]), "orders:1|c")
	both := func() error {
		got, err := c.values(t, "/namespaces/"+ns+"/pods/*/orders")
		if err == nil && len(got) != len(pods) {
			err = fmt.Errorf("orders of %v; want those of %s and %s", got, pods[0].Name, pods[1].Name)
		}
		return err
	}
	within(t, both)
	web, err := c.Kubernetes.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	// The garbage collector deletes a pod whose controller is elsewhere, if it knows the kind.
	c.Apply(t, other, strings.Replace(podManifest("stranger", "default"), "metadata: {", fmt.Sprintf(
		"metadata: {ownerReferences: [{apiVersion: nowhere.dev/v1, kind: Thing, name: web, uid: %s, controller: true}], ", web.UID), 1))
	stranger := c.AwaitPods(t, other, "app=stranger", 1)[0]
	c.awaitSender(t, other, "stranger")
	c.sendFrom(t, addressOf(t, stranger), "orders:x|s")
	c.wantValues(t, "/namespaces/"+other+"/pods/*/orders", map[string]float64{"stranger": 1})
	if err := both(); err != nil {
		t.Errorf("with a stranger that claims the controller: %v", err)
	}
}

// A scraper's pod reads the series of the namespaces where the chart's role is bound to its service account, and
// nothing more: it shows no credential, and may not push there.
func readsBySeriesRight(t *testing.T, c *cluster) {
	monitoring, ns, other := c.Namespace(t, "monitoring"), c.Namespace(t, "scraped"), c.Namespace(t, "private")
	for _, namespace := range []string{ns, other} {
		c.sendFrom(t, addressOf(t, c.pod(t, namespace, "web", "default")), "hits:7|c")
		c.wantValues(t, "/namespaces/"+namespace+"/pods/*/hits:total", map[string]float64{"web": 7})
	}
	scraper := addressOf(t, c.pod(t, monitoring, "prometheus", "default"))
	c.awaitSender(t, monitoring, "prometheus")
	page := "/metrics/series?match=hits&namespace=" + ns + "&namespace=" + other
	// KEDA's operator may get everything, and fetches what the author of a trigger names.
	c.Apply(t, ns, `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: everything}, `+
		`rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}]}`)
	c.Kubectl(t, "create", "rolebinding", "operator", "-n", ns, "--role=everything", "--serviceaccount="+monitoring+":default")
	status, text, err := c.ask(t, scraper, http.MethodGet, page, "")
	if err != nil || status/100 != 4 || !strings.Contains(text, `cannot read resource \"series\"`) {
		t.Errorf("without a right: %d %s (%v)", status, text, err)
	}
	c.Kubectl(t, "create", "rolebinding", "scraper", "-n", ns, "--clusterrole=sluice-series-reader", "--serviceaccount="+monitoring+":default")
	within(t, func() error {
		status, text, err := c.ask(t, scraper, http.MethodGet, page, "")
		if err != nil || status != http.StatusOK || !strings.Contains(text, `hits_total{namespace="`+ns+`",pod="web"} 7`) {
			return fmt.Errorf("%d %s (%v)", status, text, err)
		}
		if strings.Contains(text, other) {
			t.Errorf("the page has series of a namespace without the right:\n%s", text)
		}
		return nil
	})
	c.push(t, scraper, http.MethodGet, "/v1/namespaces/"+ns+"/pods/*/hits:total", "", http.StatusOK)
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		if status, text, err := c.ask(t, scraper, method, "/v1/namespaces/"+ns+"/pods/web/hits", "1"); err != nil || status/100 != 4 {
			t.Errorf("%s: %d %s (%v)", method, status, text, err)
		}
	}
}
