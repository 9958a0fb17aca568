package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/wake"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/metric"
)

// wakeTargets makes the waker of targets at zero, if it is on.
func (p *dataPath) wakeTargets() *wake.Waker {
	if !p.cfg.wake.Enabled {
		return nil
	}
	view := p.cluster.view
	return wake.New(p.cfg.wake, wake.Parts{
		Source: zeroSource{p.watches(), p.autoscalerReader(), p.answeredElsewhere},
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
		{cluster.ErrFails, wake.Failed},
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

// answeredElsewhere says why the autoscaler's controller does not get a metric from this Sluice; nil: it does.
func (p *dataPath) answeredElsewhere(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) error {
	if err := p.notAsked(m.Source); err != nil {
		return err
	}
	if provider, _ := p.provider(a, m); provider != "" {
		return fmt.Errorf("the provider %s answers this metric", provider)
	}
	return nil
}

// zeroSource implements wake.Source.
type zeroSource struct {
	*answer.Watches
	reader    *adapter.AutoscalerReader
	elsewhere func(*inspect.Autoscaler, *inspect.AutoscalerMetric) error
}

// Ask implements wake.Source.
func (s zeroSource) Ask(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) (wake.Asked, error) {
	if err := s.elsewhere(a, m); err != nil {
		return nil, err
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
	return &inspect.Wake{Annotation: a.Wake.Annotation, State: inspect.WakeOff,
		Why: "this Sluice runs without the setting wake (chart: wake.enabled)"}
}

// nudgeControllers makes the nudger of autoscalers' controllers, if it is on.
func (p *dataPath) nudgeControllers() *wake.Nudger {
	if !p.cfg.instant.Enabled {
		return nil
	}
	view := p.cluster.view
	source := nudgeSource{p: p, reader: p.autoscalerReader(), watches: p.watches()}
	return wake.NewNudger(p.cfg.instant, wake.NudgeParts{
		Look: source.watches.Look, Watch: source.watch, Predict: source.predict,
		Nudge: func(ctx context.Context, a *inspect.Autoscaler) (int64, wake.Outcome, error) {
			generation, err := p.cluster.nudges.Nudge(ctx, a)
			outcome, err := nudgeOutcome(err)
			return generation, outcome, err
		},
		TakeBack: func(ctx context.Context, a *inspect.Autoscaler) (wake.Outcome, error) {
			return nudgeOutcome(p.cluster.nudges.TakeBack(ctx, a))
		},
		Ready:  p.answers,
		Events: view,
		Logger: p.log,
	})
}

// nudgeOutcome sorts the answer to a nudge.
func nudgeOutcome(err error) (wake.Outcome, error) {
	outcome, err := outcomeOf(err)
	if outcome == wake.Woken {
		outcome = wake.Nudged
	}
	return outcome, err
}

// nudgeSource reads what an autoscaler's controller would get. One goroutine uses it.
type nudgeSource struct {
	p       *dataPath
	reader  *adapter.AutoscalerReader
	watches *answer.Watches
}

// watch implements wake.NudgeParts.Watch.
func (s nudgeSource) watch(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, changed func()) (wake.Watched, error) {
	if _, err := s.reader.Series(a, m); err != nil {
		return nil, err
	}
	return s.watches.Watch(func() (metric.Query, error) { return s.reader.Series(a, m) }, changed), nil
}

// predict implements wake.NudgeParts.Predict.
func (s nudgeSource) predict(a *inspect.Autoscaler, memory *explain.Memory) explain.Prediction {
	asked := *a
	asked.Metrics = make([]inspect.AutoscalerMetric, len(a.Metrics))
	for i, m := range a.Metrics {
		asked.Metrics[i] = m
		asked.Metrics[i].Asked = m.Pushed() && s.p.answeredElsewhere(a, &m) == nil
	}
	facts := s.reader.Facts(&asked, s.p.cluster.view.Targets())
	facts.Scale = &explain.Scale{SpecReplicas: a.ReplicasSet(), StatusReplicas: a.ReplicasSet()}
	if len(facts.Pods) > 0 {
		facts.Scale.StatusReplicas = int32(len(facts.Pods))
	}
	return explain.Predict(facts, memory)
}

// instantDocument is what Sluice makes of an autoscaler's annotation; nil: it has none.
func (p *dataPath) instantDocument(a *inspect.Autoscaler) *inspect.Instant {
	switch {
	case a.Instant == nil:
		return nil
	case p.cluster.nudger != nil:
		return p.cluster.nudger.Describe(a)
	}
	return &inspect.Instant{Annotation: a.Instant.Annotation, State: inspect.InstantOff,
		Why: "this Sluice runs without the setting instant (chart: instant.enabled)"}
}
