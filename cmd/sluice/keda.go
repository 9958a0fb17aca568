package main

import (
	"context"
	"strings"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/keda"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/metric"
)

// openKEDA binds the port of KEDA's external scaler, if it is on.
func (p *dataPath) openKEDA(context.Context) (err error) {
	if !p.cfg.keda.Enabled() {
		return nil
	}
	p.keda, err = keda.Listen(p.cfg.keda, keda.Parts{Source: p.triggers(), Ready: p.answers, Logger: p.log})
	return p.cfg.listenFault("keda-address", err)
}

// triggers reads for KEDA's triggers.
func (p *dataPath) triggers() triggers {
	parts := adapter.Parts{Source: p.readerOf(p.fresh())}
	if p.cluster.view != nil {
		parts.Cluster, parts.Policies = p.cluster.view, p.cluster.policies
	}
	return triggers{adapter.NewQuestionReader(parts), newAnswerWatches(p.rules, p.merged)}
}

// answers reports whether the metrics APIs would answer, and what is missing otherwise.
func (p *dataPath) answers() (bool, string) {
	if p.cluster.view != nil {
		if ready, missing := p.cluster.state(); !ready {
			return false, missing
		}
	}
	if p.replication.replica == nil {
		return true, ""
	}
	return p.replication.replica.Answers()
}

// triggers reads the table for KEDA's triggers.
type triggers struct {
	reader  *adapter.QuestionReader
	watches *answerWatches
}

// Look implements keda.Source.
func (t triggers) Look() { t.watches.Look() }

// Ask implements keda.Source.
func (t triggers) Ask(q trigger.Question) (keda.Asked, error) {
	one := &askedTrigger{triggers: t, question: questionOf(q)}
	_, err := t.reader.Query(one.question)
	return one, err
}

func questionOf(q trigger.Question) adapter.Question {
	of := adapter.Question{Namespace: q.Namespace, Metric: q.Metric, Selector: q.Selector}
	switch q.Object {
	case trigger.External:
	case trigger.Namespace:
		of.Resource, of.Object = "namespaces", q.Namespace
	case trigger.Pods:
		of.Resource, of.Object, of.ObjectSelector, of.RollUp = "pods", adapter.AllObjects, q.PodSelector, true
	default:
		of.Resource, of.Object, _ = strings.Cut(q.Object, "/")
	}
	return of
}

// askedTrigger implements keda.Asked.
type askedTrigger struct {
	triggers
	question adapter.Question
	watch    *answerWatch // nil: not watched
}

// Value adds up the values of this moment: an autoscaler does the same with the API's answer.
func (a *askedTrigger) Value() (float64, error) {
	if a.watch != nil {
		a.watch.Follow()
	}
	query, err := a.reader.Query(a.question)
	if err != nil {
		return 0, err
	}
	points, err := a.reader.Points(query)
	if err != nil {
		return 0, err
	}
	sum := metric.Number{}
	for i := range points {
		sum = sum.Plus(points[i].Value)
	}
	return sum.Float64(), nil
}

// Watch implements keda.Asked. The watches select all objects of a selector that selects some: they
// may wake for a pod that the selector leaves out, and never miss one that was labelled since. So do
// those of the pods of an object that may be rolled up.
func (a *askedTrigger) Watch(changed func()) {
	a.watch = a.watches.watch(func() (metric.Query, error) {
		query, err := a.reader.Query(a.question)
		query.MatchObject, query.ListObjects, query.RemovedObjects = nil, nil, nil
		return query, err
	}, changed)
}

// Unwatch implements keda.Asked.
func (a *askedTrigger) Unwatch() {
	a.watch.End()
	a.watch = nil
}
