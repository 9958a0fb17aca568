package main

import (
	"context"
	"errors"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/wake"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate/answer"
)

// wakeTargets makes the waker of targets at zero, if it is on.
func (p *dataPath) wakeTargets() *wake.Waker {
	if !p.cfg.wake.Enabled {
		return nil
	}
	view := p.cluster.view
	return wake.New(p.cfg.wake, wake.Parts{
		Source: zeroSource{p.watches(), p.autoscalerReader(), p.cfg.api.CustomMetrics, p.cfg.api.ExternalMetrics},
		Scale: func(ctx context.Context, a *inspect.Autoscaler) (wake.Outcome, error) {
			return outcomeOf(p.cluster.firstReplicas.Set(ctx, a))
		},
		Ready:    p.answers,
		Quantity: adapter.Quantity,
		Events:   view,
		Logger:   p.log,
	})
}

// outcomeOf sorts the answer to an attempt to set a first replica.
func outcomeOf(err error) (wake.Outcome, error) {
	for _, one := range []struct {
		err error
		is  wake.Outcome
	}{
		{cluster.ErrHasReplicas, wake.Awake}, {cluster.ErrForbidden, wake.Forbidden}, {cluster.ErrNoTarget, wake.Gone},
		{cluster.ErrConflict, wake.Conflict}, {cluster.ErrRefused, wake.Refused}, {cluster.ErrNotCounted, wake.Ineffective},
	} {
		if errors.Is(err, one.err) {
			return one.is, err
		}
	}
	if err != nil {
		return wake.Silent, err
	}
	return wake.Woken, nil
}

// zeroSource implements wake.Source.
type zeroSource struct {
	*answer.Watches
	reader           *adapter.AutoscalerReader
	custom, external bool // which metrics APIs are served
}

// Ask implements wake.Source. A metric of an API that this Sluice does not serve is another server's.
func (s zeroSource) Ask(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) (wake.Asked, error) {
	if m.Source == "External" && !s.external {
		return nil, errors.New("this Sluice does not serve external.metrics.k8s.io")
	}
	if m.Source == "Object" && !s.custom {
		return nil, errors.New("this Sluice does not serve custom.metrics.k8s.io")
	}
	return s.reader.Ask(a, m, s.Watches)
}

// wakeDocument is what Sluice makes of an autoscaler's annotation; nil: it has none.
func (p *dataPath) wakeDocument(a *inspect.Autoscaler) *inspect.Wake {
	switch {
	case a.Wake == nil:
		return nil
	case p.cluster.waker != nil:
		return p.cluster.waker.Describe(a)
	}
	return &inspect.Wake{Annotation: a.Wake.Annotation, State: inspect.WakeOff, Why: "this Sluice runs without the setting wake (chart: wake.enabled)"}
}
