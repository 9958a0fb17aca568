package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wantStatus waits for a condition of the autoscaler "web"; empty reason: any.
func (e *explained) wantStatus(t *testing.T, condition autoscaling.HorizontalPodAutoscalerConditionType, status core.ConditionStatus, reason string) {
	t.Helper()
	within(t, func() error {
		hpa, err := e.autoscaler(t)
		if err != nil {
			return err
		}
		for _, one := range hpa.Status.Conditions {
			if one.Type == condition && one.Status == status && (reason == "" || one.Reason == reason) {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v, want %s=%s %s", hpa.Status.Conditions, condition, status, reason)
	})
}

func (e *explained) autoscaler(t *testing.T) (*autoscaling.HorizontalPodAutoscaler, error) {
	return e.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(e.ns).Get(t.Context(), "web", metav1.GetOptions{})
}

// arithmetic are steps of one autoscaler with the target 10: values of web-0, web-1 and so on ("-":
// none), the replicas that the controller sets, and a part of the explanation.
var arithmetic = []struct {
	name   string
	values string
	hold   bool // new pods stay pending
	want   int32
	says   string
}{
	{"a new pod has no value", "15 15", false, 3, "1 pod without a value: counted as 0"},
	{"all pods have one", "10 10 10", false, 3, "within the tolerance"},
	{"new pods are pending", "17 17 17", true, 5, "2 pods pending: counted as 0"},
	{"pending pods play no part on the way down", "7 7 4", true, 2, "2 pods × 0.7"},
	{"a pod's value ends", "7 -", true, 2, "1 pod without a value: counted as the target"}, // before the other falls: both as one mean would be 1 replica
	{"a pod without a value counts as the target", "2 -", true, 2, "1 pod without a value: counted as the target"},
	{"down", "2 2", false, 1, "1 pod × 0.2, rounded up: 1 replica"},
}

// The explained number of replicas is the one that the controller sets: up and down, with pods that
// have no value, and with pods that do not run yet.
func reproducesTheArithmetic(t *testing.T, e *explained) {
	e.workload(t, "web", 2)
	values := &podValues{}
	values.set("10 10")
	e.keepPushing(t, values)
	e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10")))
	e.wantStatus(t, autoscaling.ScalingActive, core.ConditionTrue, "")
	release := func() {}
	for _, step := range arithmetic {
		release()
		if step.hold {
			release = e.Kubelet.Hold(e.ns)
		} else {
			release = func() {}
		}
		values.set(step.values)
		e.wantSame(t, step.name, step.want, step.says)
	}
	release()
}

// wantSame waits until the controller has set the replicas, and the explanation gives the same
// number.
func (e *explained) wantSame(t *testing.T, step string, want int32, says string) {
	t.Helper()
	within(t, func() error {
		hpa, err := e.autoscaler(t)
		if err != nil {
			return err
		}
		_, r, err := e.report(t)
		if err != nil {
			return err
		}
		_, text, _ := e.explain(t, "hpa/web")
		switch n := r.Decision.Replicas; {
		case hpa.Status.DesiredReplicas != want || n == nil || *n != want:
			return fmt.Errorf("%s: the controller wants %d, the explanation is below, want %d\n%s", step, hpa.Status.DesiredReplicas, want, text)
		case !strings.Contains(text, says):
			return fmt.Errorf("%s: the explanation doesn't say %q:\n%s", step, says, text)
		}
		return nil
	})
}

// podValues are the values that the pods web-0, web-1 and so on push.
type podValues struct {
	mu  sync.Mutex
	all []string
}

func (v *podValues) set(values string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = strings.Fields(values)
}

func (v *podValues) of(pod string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, value := range v.all {
		if pod == fmt.Sprintf("web-%d", i) && value != "-" {
			return value
		}
	}
	return ""
}

// keepPushing has the pods push the gauge "busy" until the test ends. A pod that
// stops has no value two seconds later.
func (e *explained) keepPushing(t *testing.T, values *podValues) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(500 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				for _, pod := range slices.DeleteFunc(e.running(ctx, e.ns, "app=web"), func(p core.Pod) bool { return values.of(p.Name) == "" }) {
					e.pushShortlived(ctx, addressOf(t, pod), pod.Name, values.of(pod.Name))
				}
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// pushShortlived pushes a gauge of a pod that lives for two seconds. Errors show as missing values.
func (e *explained) pushShortlived(ctx context.Context, from netip.Addr, pod, value string) {
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut,
		"http://"+e.sluice.HTTP+"/v1/namespaces/"+e.ns+"/pods/"+pod+"/busy?ttl=2s", strings.NewReader(value))
	if err != nil {
		return
	}
	if answer, err := client.Do(request); err == nil {
		_ = answer.Body.Close()
	}
}
