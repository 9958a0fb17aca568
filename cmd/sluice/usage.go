package main

import (
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/replica/agents"
	"k8s.io/apimachinery/pkg/labels"
)

// clusterUsage joins what agents say that nodes and pods use with the objects of the cluster.
type clusterUsage struct {
	latest *usage.Latest
	view   *cluster.View
}

// take takes what an agent reports, and returns the pods that are younger than the windows that it has of them.
func (u *clusterUsage) take(node string, report usage.Report) (renewals []agents.Renewal) {
	u.latest.Set(node, report, report.At)
	for i := range report.Records {
		r := &report.Records[i]
		if r.Container.Pod == "" || r.Since.IsZero() {
			continue
		}
		named := u.view.PodNamed(r.Container.Namespace, r.Container.Pod)
		if named == nil || u.view.NodeOf(named) != node {
			continue
		}
		pod := usage.Pod{Created: time.Unix(named.Created, 0)}
		if pod.Renewed(r) {
			renewals = append(renewals, agents.Renewal{Namespace: named.Namespace, Pod: named.Name, Created: pod.Created})
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
		NodeUID: func(name string) (uid string, ok bool) {
			uid, exists, watched := u.view.Object("nodes", "", name)
			return uid, exists || !watched
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

// Version implements adapter.Usage.
func (u *clusterUsage) Version(node string) (of, newest uint64) { return u.latest.Version(node) }

// Nodes implements adapter.Usage.
func (u *clusterUsage) Nodes(name string, selector labels.Selector) (all []adapter.UsedNode, err error) {
	now := time.Now()
	for _, node := range u.latest.Nodes(now) {
		if name != "" && node != name {
			continue
		}
		own, exists, err := u.view.NodeLabels(node)
		switch {
		case err != nil && !selector.Empty():
			return nil, err
		case err == nil && (!exists || !selector.Matches(labels.Set(own))):
			continue
		}
		if r := u.latest.Node(node, now); r != nil {
			all = append(all, adapter.UsedNode{Name: node, Labels: own, Record: r})
		}
	}
	return all, nil
}
