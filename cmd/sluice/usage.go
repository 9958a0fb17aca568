package main

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agents"
	"k8s.io/apimachinery/pkg/labels"
)

// clusterUsage joins what agents say that nodes and pods use with the objects of the cluster.
type clusterUsage struct {
	latest *usage.Latest
	view   *cluster.View
	path   *dataPath
}

// take takes what an agent reports, and returns the pods that are younger than the windows that it has of them.
func (u *clusterUsage) take(node string, report usage.Report) (renewals []agents.Renewal) {
	u.latest.Set(node, report, report.At)
	for i := range report.Records {
		r := &report.Records[i]
		if r.Container.Pod == "" || r.Since.IsZero() {
			continue
		}
		pod, ok := u.view.UsedPod(r.Container.Namespace, r.Container.Pod)
		if ok && pod.Node == node && pod.Renewed(r) {
			renewals = append(renewals, agents.Renewal{Namespace: pod.Namespace, Pod: pod.Name, Began: pod.Began()})
		}
	}
	return renewals
}

// Own implements replica.Usage.
func (u *clusterUsage) Own() []string { return u.latest.Own(time.Now()) }

// OwnReport implements replica.Usage.
func (u *clusterUsage) OwnReport(node string) []byte {
	now := time.Now()
	report, ok := u.latest.Report(node, now)
	if !ok {
		return nil
	}
	return agents.EncodeUsage(node, &report, now)
}

// Take implements replica.Usage.
func (u *clusterUsage) Take(message []byte) error {
	now := time.Now()
	node, report, err := agents.DecodeUsage(message, now)
	switch {
	case err != nil:
	case report.Records == nil:
		u.latest.SetSeconds(node, report.Number, report.Seconds)
	default:
		u.latest.Set(node, report, now)
	}
	return err
}

// answers answers for usage as metrics of pods and nodes.
func (u *clusterUsage) answers() *usage.Answers {
	return &usage.Answers{Latest: u.latest,
		Pods: func(namespace, name string) []usage.Pod { return u.view.UsedPods(namespace, name, labels.Everything()) },
		Node: func(name string) (uid string, created time.Time, ok bool) {
			uid, exists, watched := u.view.Object("nodes", "", name)
			return uid, u.view.NodeCreated(name), exists || !watched
		},
	}
}

// Pods implements adapter.Usage.
func (u *clusterUsage) Pods(namespace, name string, selector labels.Selector) []usage.Pod {
	return u.view.UsedPods(namespace, name, selector)
}

// Served implements adapter.Usage.
func (u *clusterUsage) Served(pod *usage.Pod) (containers []usage.Record, end time.Time, window time.Duration, ok bool) {
	return u.latest.Served(pod, time.Now())
}

// Containers implements adapter.Usage.
func (u *clusterUsage) Containers(pod *usage.Pod) []usage.Record {
	return u.latest.Containers(pod, time.Now())
}

// pointsWithin bounds the wait for a node's agent, and pointsElsewhereWithin that of another replica, whose other
// answers wait meanwhile.
const pointsWithin, pointsElsewhereWithin = 5 * time.Second, 500 * time.Millisecond

// Points implements adapter.Usage: this replica asks the agent, or the one that it reports to.
func (u *clusterUsage) Points(ctx context.Context, node string, query *usage.PointsQuery) ([]usage.ContainerPoints, error) {
	ctx, cancel := context.WithTimeout(ctx, pointsWithin)
	defer cancel()
	all, err := u.ownPoints(ctx, node, query)
	if errors.Is(err, agents.ErrNoAgent) {
		all, err = u.path.pointsElsewhere(ctx, node, query)
	}
	if _, reports := u.latest.Report(node, time.Now()); !reports && errors.Is(err, agents.ErrNoAgent) {
		return nil, nil // there is nothing of the node, as among the derived ones
	}
	if err != nil && !errors.Is(err, metric.ErrInvalidQuery) {
		err = metric.NotReadyf("the points of node %s cannot be read: %v", node, err)
	}
	return all, err
}

func (u *clusterUsage) ownPoints(ctx context.Context, node string, query *usage.PointsQuery) ([]usage.ContainerPoints, error) {
	if u.path.agents == nil {
		return nil, agents.ErrNoAgent
	}
	return u.path.agents.Points(ctx, node, query)
}

// Version implements adapter.Usage.
func (u *clusterUsage) Version(node string) (of, newest uint64) {
	return u.latest.Version(node, time.Now())
}

// Nodes implements adapter.Usage.
func (u *clusterUsage) Nodes(name string, selector labels.Selector) (all []adapter.UsedNode, err error) {
	now := time.Now()
	names := []string{name}
	if name == "" {
		names = u.latest.Nodes(now)
	}
	for _, node := range names {
		own, exists, err := u.view.NodeLabels(node)
		switch {
		case err != nil && !selector.Empty():
			return nil, err
		case err == nil && (!exists || !selector.Matches(labels.Set(own))):
			continue
		}
		if r := u.latest.Node(node, u.view.NodeCreated(node), now); r != nil {
			all = append(all, adapter.UsedNode{Name: node, Labels: own, Record: r})
		}
	}
	return all, nil
}
