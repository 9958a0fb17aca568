package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Killed while it is scaled out, Sluice is back before the autoscaler could act on anything but
// what it was: the replicas do not move.
func survivesAKill(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "killed")
	c.Apply(t, ns, example(t, "hpa-pods.yaml", ns))
	c.AwaitPods(t, ns, "app=web", 1)
	c.startLoad(t, ns, "app=web", 35, requests)
	c.wantReplicas(t, ns, "web", 4)
	c.steady(t, ns, "web", 4, 12*time.Second) // the share of each pod has settled
	for range 2 {
		c.sluice.Kill()
		began := time.Now()
		c.sluice.Start()
		t.Logf("ready %v after it was killed", time.Since(began).Round(time.Millisecond))
		c.steady(t, ns, "web", 4, 20*time.Second)
	}
	c.noWarningsNow(t, ns, "web")
}

// The pod that pushed is gone, then Sluice is killed: the others of its Deployment read 0 before
// and after. A Deployment of which nobody ever pushed reads nothing.
func remembersAcrossAKill(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "remembered")
	c.Apply(t, ns, deployment("web"), deployment("quiet"))
	first := c.AwaitPods(t, ns, "app=web", 1)[0]
	c.awaitSender(t, ns, first.Name)
	c.sendFrom(t, addressOf(t, first), "hits:5|c|#path:/api\nusers:bob|s\ndepth:7|g")
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/depth", map[string]float64{first.Name: 7})
	c.deletePod(t, ns, first.Name)
	second := c.AwaitPods(t, ns, "app=web", 1)[0]
	zero := func(when string) {
		t.Helper()
		for _, path := range []string{"*/hits:count", "*/users", second.Name + "/hits", "*/hits?metricLabelSelector=path%3Dapi", "*/hits?labelSelector=app%3Dweb"} {
			c.wantValues(t, "/namespaces/"+ns+"/pods/"+path, map[string]float64{second.Name: 0})
		}
		for _, path := range []string{"*/depth", "*/hits?labelSelector=app%3Dquiet", "*/hits?metricLabelSelector=path%3Dother", "*/hits:total"} {
			if got, err := c.values(t, "/namespaces/"+ns+"/pods/"+path); err == nil {
				t.Errorf("%s: %s reads %v, want nothing", when, path, got)
			}
		}
	}
	zero("once the pod that pushed is gone")
	time.Sleep(3 * time.Second) // more than between two flushes
	c.sluice.Kill()
	c.sluice.Start()
	zero("after a kill")
}

// Namespaces end while Sluice is down: a later one of the name gets nothing of the former one's external metrics
// and groups, by the metrics API or from the push port; nor does anybody who asks for a name that is free.
func namesChangeHands(t *testing.T, c *cluster) {
	free, again := c.Namespace(t, "free"), c.Namespace(t, "again")
	reads := func(namespace string) (values []string) {
		t.Helper()
		for _, name := range []string{"jobs", "batch"} {
			within(t, func() error { // the API server may take it for away, after a start
				body, err := c.Get(t.Context(), external+"/namespaces/"+namespace+"/"+name)
				switch {
				case errors.IsNotFound(err):
					return nil
				case err == nil:
					values = append(values, string(body))
				}
				return err
			})
		}
		return values
	}
	for _, namespace := range []string{free, again} {
		from := addressOf(t, c.pod(t, namespace, "batch", "default"))
		c.push(t, from, http.MethodPut, "/v1/namespaces/"+namespace+"/external/jobs?sync=true", "7", http.StatusOK)
		c.push(t, from, http.MethodPut, "/metrics/job/nightly?sync=true", "# TYPE batch gauge\nbatch 7\n", http.StatusOK)
		if values := reads(namespace); len(values) != 2 {
			t.Fatalf("%s has %q, want two metrics", namespace, values)
		}
	}
	c.sluice.Kill()
	namespaces := c.Kubernetes.CoreV1().Namespaces()
	for _, namespace := range []string{free, again} {
		now := int64(0)
		for _, err := range []error{
			c.Kubernetes.CoreV1().Pods(namespace).Delete(t.Context(), "batch", metav1.DeleteOptions{GracePeriodSeconds: &now}),
			namespaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}),
		} {
			must(t, err)
		}
		// Its controller waits for the metrics APIs, which are down, to see that the namespace is empty.
		ended, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{})
		if err == nil {
			ended.Spec.Finalizers = nil
			_, err = namespaces.Finalize(t.Context(), ended, metav1.UpdateOptions{})
		}
		if err != nil && !errors.IsNotFound(err) {
			t.Fatal(err)
		}
		within(t, func() error {
			if _, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{}); !errors.IsNotFound(err) {
				return fmt.Errorf("%s is there still: %v", namespace, err)
			}
			return nil
		})
	}
	if _, err := namespaces.Create(t.Context(), &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: again}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.sluice.Start()
	for _, namespace := range []string{free, again} {
		if values := reads(namespace); len(values) != 0 {
			t.Errorf("%s has %q of the former namespace", namespace, values)
		}
	}
	from := addressOf(t, c.pod(t, again, "reader", "default"))
	if page := c.push(t, from, http.MethodGet, "/metrics", "", http.StatusOK); strings.Contains(page, "batch") {
		t.Errorf("a pod of the later namespace is shown a group of the former one:\n%s", page)
	}
	c.push(t, from, http.MethodPut, "/v1/namespaces/"+again+"/external/jobs?sync=true", "8", http.StatusOK)
	c.sluice.Kill()
	c.sluice.Start()
	if values := reads(again); len(values) != 1 || !strings.Contains(values[0], `"value":"8"`) {
		t.Errorf("after another start, %s has %q, want the 8 that it pushed", again, values)
	}
}

// A namespace ends while Sluice runs. Its tokens are rejected at once, what a forwarder pushes late is not the next
// namespace's, and no list shows that one anything of the former.
func endsWithItsNamespace(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "ended")
	token := c.tokenFor(t, ns, "default", "sluice", nil)
	forwarder := addressOf(t, c.pod(t, c.forwarders(t), "late-"+ns, "controller"))
	path := "/v1/namespaces/" + ns + "/external/former"
	c.wantPush(t, token, http.MethodPut, path, "7", http.StatusOK, "")
	c.wantPush(t, token, http.MethodPost, "/v1/statsd", "former:secret|g\n", http.StatusBadRequest, "secret")
	lists := func() (all string) {
		t.Helper()
		for _, what := range []string{"metrics", "senders", "refused", "groups"} {
			out, _, _ := (lister{c, c.Kubeconfig, c.sluice.Binary()}).run("list", what, "-n", ns, "-o", "wide")
			all += out
		}
		return all
	}
	if all := lists(); !strings.Contains(all, "secret") {
		t.Fatalf("the rejected line is in no list:\n%s", all)
	}
	namespaces := c.Kubernetes.CoreV1().Namespaces()
	must(t, namespaces.Delete(t.Context(), ns, metav1.DeleteOptions{}))
	within(t, func() error {
		if _, err := namespaces.Get(t.Context(), ns, metav1.GetOptions{}); !errors.IsNotFound(err) {
			return fmt.Errorf("%s is there still: %v", ns, err)
		}
		return c.tryPush(t, token, http.MethodPut, path, "7", http.StatusUnauthorized)
	})
	c.push(t, forwarder, http.MethodPut, path, "7", http.StatusOK)
	c.push(t, forwarder, http.MethodPut, "/metrics/job/former/namespace/"+ns, "former 7\n", http.StatusOK)
	time.Sleep(time.Second) // a creation is known to the second
	if _, err := namespaces.Create(t.Context(), &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.pod(t, ns, "next", "default") // the next namespace is known
	within(t, func() error {
		body, err := c.Get(t.Context(), external+"/namespaces/"+ns+"/former")
		if err == nil {
			err = fmt.Errorf("the next namespace has %s", body)
		} else if errors.IsNotFound(err) {
			err = nil
		}
		return err
	})
	if all := lists(); strings.Contains(all, "former") {
		t.Errorf("the next namespace is shown\n%s", all)
	}
	next := c.tokenFor(t, ns, "default", "sluice", nil)
	c.wantPush(t, next, http.MethodPut, path, "8", http.StatusOK, "")
	c.wantPush(t, token, http.MethodPut, path, "7", http.StatusUnauthorized, "")
}
