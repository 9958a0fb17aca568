package main

import (
	"context"
	"strings"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/keda"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/metric"
)

// openKEDA binds the port of KEDA's external scaler, if it is on.
func (p *dataPath) openKEDA(context.Context) (err error) {
	if !p.cfg.keda.Enabled() {
		return nil
	}
	p.keda, err = keda.Listen(p.cfg.keda, keda.Parts{Source: p.triggers(), Ready: p.answers, Logger: p.log})
	return p.cfg.portFault("keda-address", &p.cfg.keda, err)
}

// triggers reads for KEDA's triggers.
func (p *dataPath) triggers() triggers {
	parts := adapter.Parts{Source: p.reader()}
	if p.cluster.view != nil {
		parts.Cluster, parts.Policies = p.cluster.view, p.cluster.policies
	}
	return triggers{p.watches(), adapter.NewQuestionReader(parts)}
}

// answers reports whether the metrics APIs would answer, and what is missing otherwise.
func (p *dataPath) answers() (bool, string) {
	if p.progress.deaf.Load() {
		return false, "Sluice is stopping"
	}
	if ready, missing := p.clusterRead(); !ready {
		return false, missing
	}
	if p.agents != nil {
		if answers, missing := p.agents.Answers(); !answers {
			return false, missing
		}
	}
	if p.replication.replica == nil {
		return true, ""
	}
	return p.replication.replica.Answers()
}

// triggers implements keda.Source.
type triggers struct {
	*answer.Watches
	reader *adapter.QuestionReader
}

// Ask implements keda.Source.
func (t triggers) Ask(q trigger.Question) (keda.Asked, error) {
	return t.reader.Ask(questionOf(q), t.Watches)
}

func questionOf(q trigger.Question) adapter.Question {
	question := adapter.Question{Namespace: q.Namespace, Metric: q.Metric, Selector: q.Selector}
	switch q.Object {
	case trigger.External:
	case trigger.Namespace:
		question.Resource, question.Object = "namespaces", q.Namespace
	case trigger.Pods:
		question.Resource, question.Object = "pods", metric.AllObjects
		question.ObjectSelector, question.RollUp = q.PodSelector, true
	default:
		question.Resource, question.Object, _ = strings.Cut(q.Object, "/")
	}
	return question
}
