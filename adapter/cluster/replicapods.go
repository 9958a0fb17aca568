package cluster

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// replicaPods knows which replicas of this Sluice are endpoints of a Service. It asks the API server only
// while it is asked itself, because replicas are rarely silent.
type replicaPods struct {
	client    kubernetes.Interface
	namespace string // of all replicas
	logger    *slog.Logger
	asked     chan struct{}
	serving   atomic.Pointer[map[uidKey]struct{}] // as of the newest answer; nil: none yet
}

const (
	// replicaPodsEvery is the least time between two questions, replicaPodsWithin that for an answer.
	replicaPodsEvery  = time.Second
	replicaPodsWithin = 5 * time.Second
)

func newReplicaPods(client *Client, logger *slog.Logger) *replicaPods {
	return &replicaPods{client: client.kubernetes, namespace: client.namespace, logger: logger,
		asked: make(chan struct{}, 1)}
}

// ReplicaServes reports whether a replica serves, by its pod's name: the pod is ready, and an endpoint of a
// Service. It answers from memory, at first with false. While it is asked, the answer is some seconds old at
// most, or that of before the API server was away.
func (v *View) ReplicaServes(name string) bool {
	r := v.replicaPods
	select {
	case r.asked <- struct{}{}:
	default:
	}
	serving, p := r.serving.Load(), v.pods.byName(r.namespace, name)
	if serving == nil || p == nil || !p.ready {
		return false
	}
	_, is := (*serving)[newUIDKey(p.UID)]
	return is
}

func (r *replicaPods) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.asked:
			r.read(ctx)
			sleep(ctx, replicaPodsEvery, nil)
		}
	}
}

// read reads the endpoints of all Services of the namespace. Those of a headless Service that publishes pods
// which aren't ready don't serve while they aren't.
func (r *replicaPods) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, replicaPodsWithin)
	defer cancel()
	list, err := r.client.DiscoveryV1().EndpointSlices(r.namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		r.logger.Warn("cannot read which replicas are endpoints of a Service", "error", err)
		return
	}
	serving := map[uidKey]struct{}{}
	for i := range list.Items {
		for _, endpoint := range list.Items[i].Endpoints {
			if endpoint.TargetRef != nil && endpoint.TargetRef.Kind == "Pod" && isServing(endpoint.Conditions) {
				serving[newUIDKey(string(endpoint.TargetRef.UID))] = struct{}{}
			}
		}
	}
	r.serving.Store(&serving)
}

// isServing reads the conditions of an endpoint. Those that are not set mean what is usual.
func isServing(c discoveryv1.EndpointConditions) bool {
	serving := c.Serving == nil || *c.Serving
	return serving && (c.Terminating == nil || !*c.Terminating)
}
