package adapter

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/adapter/route"
	"github.com/sluice-metrics/sluice/metric"
)

// longest is the length of the longest name that policies or rules were asked about. Each matches it with its patterns.
type longest struct{ policies, source atomic.Int64 }

func see(most *atomic.Int64, name string) { most.Store(max(most.Load(), int64(len(name)))) }

type seenByPolicies struct{ *longest }

func (l seenByPolicies) Check(r policy.Request) error {
	see(&l.policies, r.Expression.Name)
	return nil
}

func (l seenByPolicies) MayHave(_ string, all []metric.Expression, _ func(string) (string, bool), _ metric.Reader) bool {
	for _, e := range all {
		see(&l.policies, e.Name)
	}
	return true
}

func (l seenByPolicies) Governs(_ string, e metric.Expression) (bool, error) {
	see(&l.policies, e.Name)
	return false, nil
}

func (l seenByPolicies) Hidden(name string, _ bool) bool {
	see(&l.policies, name)
	return false
}

type seenBySource struct {
	*memory
	*longest
}

func (s seenBySource) Objects(q metric.Query) ([]metric.Point, error) {
	see(&s.source, q.Expression.Name)
	return s.memory.Objects(q)
}

func (s seenBySource) External(q metric.Query) ([]metric.Point, error) {
	see(&s.source, q.Expression.Name)
	return s.memory.External(q)
}

// A name that no series can have is matched with no policy and no rule, whoever asks: autoscalers may have names of 60 KB,
// and a pattern takes the time of each byte.
func TestLongNamesAreMatchedWithNothing(t *testing.T) {
	var l longest
	parts := Parts{Cluster: newTown(), Source: seenBySource{shop(), &l}, Policies: seenByPolicies{&l}}
	a := running(t, prepared(t, parts, anonymousAccess()))
	a.waitReady(t)
	autoscalers, questions := NewAutoscalerReader(parts), NewQuestionReader(parts)
	ask := func(name string) (faults []error) {
		for _, m := range []inspect.AutoscalerMetric{
			{Source: "External", Name: name}, {Source: "Pods", Name: name},
			{Source: "Object", Name: name, ObjectAPIVersion: "v1", ObjectKind: "Namespace", ObjectName: "shop"},
		} {
			of := &inspect.Autoscaler{Namespace: "shop", TargetKind: "Deployment", TargetName: "web"}
			_, err := autoscalers.Of(of, &m, targetsOf{newTown()})
			_, watched := autoscalers.Series(of, &m)
			faults = append(faults, err, watched)
		}
		for _, q := range []Question{{Metric: name}, {Metric: name, Resource: "pods", Object: "*"}} {
			q.Namespace = "shop"
			query, err := questions.Query(q)
			if err == nil {
				_, _ = questions.Points(query)
			}
			faults = append(faults, err)
		}
		return faults
	}
	const most = metric.MaxNameLength
	fits := strings.Repeat("m", most)
	for _, err := range ask(fits + ":mean:1m") {
		if errors.Is(err, metric.ErrInvalidQuery) && strings.Contains(err.Error(), "bytes") {
			t.Errorf("the longest name that a series can have: %v", err)
		}
	}
	for _, name := range []string{fits + "m", fits + "m:p99:1m", strings.Repeat("m", 60_000)} {
		for i, err := range ask(name) {
			if !errors.Is(err, metric.ErrInvalidQuery) || len(err.Error()) > metric.MaxQuoted {
				t.Errorf("%d bytes, question %d: %v", len(name), i, err)
			}
		}
	}
	for _, path := range []string{externalRoot + "namespaces/shop/", customRoot + "v1beta2/namespaces/shop/pods/*/",
		customRoot + "v1beta2/namespaces/shop/metrics/"} {
		for name, want := range map[string]int{fits + ":last": 404, fits + "m": 400, strings.Repeat("m", 3900): 400} {
			if resp, body := a.get(t, path+name, ""); resp.StatusCode != want || len(body) > 4096 {
				t.Errorf("%s and %d bytes: %d, want %d: %.300s", path, len(name), resp.StatusCode, want, body)
			}
		}
	}
	if p, s := l.policies.Load(), l.source.Load(); p != most || s != most {
		t.Errorf("policies were asked about a name of %d bytes, rules about one of %d; want %d", p, s, most)
	}
}

// Other providers may have longer names than Sluice, up to a bound.
func TestLongNamesOfOtherProviders(t *testing.T) {
	p := newOtherProvider(t)
	var l longest
	a := running(t, prepared(t, Parts{Policies: seenByPolicies{&l}, Routes: routesTo(t, p.spec())}, anonymousAccess()))
	a.waitReady(t)
	const selector = "?labelSelector=" + route.ScaledObjectLabel + "%3Dweb"
	for length, want := range map[int]int{metric.MaxNameLength + 1: 200, 1024: 200, 1025: 400, 3900: 400} {
		resp, body := a.get(t, externalRoot+"namespaces/shop/"+strings.Repeat("m", length)+selector, "")
		if resp.StatusCode != want {
			t.Errorf("%d bytes: %d, want %d: %.300s", length, resp.StatusCode, want, body)
		}
	}
	if seen := l.policies.Load(); seen != 1024 {
		t.Errorf("policies were asked about a name of %d bytes", seen)
	}
}
