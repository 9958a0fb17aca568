package main

import (
	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/deletion"
)

// reader answers and deletes for those who ask over the network, as of the request: what the sockets still
// gather is applied first.
func (p *dataPath) reader() *answer.Reader {
	parts := p.readerParts()
	parts.Freshen = p.statsd.Freshen
	if log := p.replication.deletions; log != nil {
		parts.Deleting = func(q metric.Query) {
			log.Add(&deletion.Selector{
				Resource: q.Resource, Namespace: q.Namespace, Object: q.Object,
				Name: q.Expression.Name, Labels: q.RequiredLabels,
			})
		}
	}
	return answer.New(parts)
}

// ownReader answers Sluice's own watchers, which notice samples when they are applied.
func (p *dataPath) ownReader() *answer.Reader { return answer.New(p.readerParts()) }

// autoscalerReader reads for Sluice's own watchers of autoscalers.
func (p *dataPath) autoscalerReader() *adapter.AutoscalerReader {
	return adapter.NewAutoscalerReader(adapter.Parts{Source: p.ownReader(), Cluster: p.cluster.view, Policies: p.cluster.policies})
}

func (p *dataPath) readerParts() answer.Parts {
	parts := answer.Parts{Merged: p.merged, Rules: &p.rules.Current}
	if p.cluster.view != nil {
		parts.Cluster, parts.Workloads = p.cluster.view, p.cluster.workloads
	}
	return parts
}

// watches notice that answers may have changed.
func (p *dataPath) watches() *answer.Watches { return answer.NewWatches(p.merged, &p.rules.Current) }
