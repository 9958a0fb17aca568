package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseTimes are longer than client-go's usual ones (15 s, 10 s, 2 s): an Event may wait for a
// minute, and each renewal is a write to etcd.
type leaseTimes struct{ duration, renewDeadline, retry time.Duration }

var usualLeaseTimes = leaseTimes{duration: time.Minute, renewDeadline: 40 * time.Second, retry: 10 * time.Second}

// lease elects one of several replicas. The holder writes the Events about what all of them see.
// Nothing else depends on it.
type lease struct {
	client          kubernetes.Interface
	namespace, name string
	identity        string // of this replica
	times           leaseTimes
	logger          *slog.Logger
	holds           atomic.Bool
	won             chan struct{} // gets a value when the Lease was acquired
}

func newLease(client *Client, cfg Config, logger *slog.Logger) *lease {
	return &lease{client: client.kubernetes, namespace: client.namespace, name: cfg.Replicas, identity: cfg.Replica,
		times: usualLeaseTimes, logger: logger, won: make(chan struct{}, 1)}
}

// run takes part in the election until the context ends. A holder releases the Lease then.
func (l *lease) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.elect(ctx); err != nil {
			l.logger.Error("no Events about LimitRanges and autoscalers are written: cannot take part in the election of a replica",
				"err", err)
			return
		}
		sleep(ctx, l.times.retry, nil)
	}
}

// elect returns when the Lease was lost or the context has ended.
func (l *lease) elect(ctx context.Context) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.namespace, Name: l.name},
			Client:     l.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.identity},
		},
		LeaseDuration: l.times.duration, RenewDeadline: l.times.renewDeadline, RetryPeriod: l.times.retry,
		ReleaseOnCancel: true,
		Name:            l.name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: l.acquired,
			OnStoppedLeading: func() { l.holds.Store(false) },
		},
	})
	if err != nil {
		return fmt.Errorf("lease %s/%s: %w", l.namespace, l.name, err)
	}
	elector.Run(ctx)
	return nil
}

// acquired is called in a goroutine of its own, perhaps after the Lease was lost again.
func (l *lease) acquired(ctx context.Context) {
	if l.holds.Store(true); ctx.Err() != nil {
		l.holds.Store(false)
		return
	}
	select {
	case l.won <- struct{}{}:
	default:
	}
}

// namespaceFile names the namespace of the pod that this process runs in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace returns the namespace of the pod that this process runs in.
func podNamespace() string {
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return metav1.NamespaceDefault
	}
	return cmp.Or(strings.TrimSpace(string(text)), metav1.NamespaceDefault)
}
