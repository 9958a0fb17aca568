package scrape

import (
	"fmt"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// Targets lists what the pods of a namespace (empty: of all) announce, and how their scrapes go.
func (s *Scraper) Targets(namespace string) (all []inspect.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range s.pods {
		if namespace != "" && pod.Namespace != namespace {
			continue
		}
		listed := inspect.Target{Namespace: pod.Namespace, Pod: pod.Name}
		if pod.Fault != "" {
			listed.State, listed.Error = inspect.TargetInvalid, pod.Fault
			all = append(all, listed)
			continue
		}
		for _, e := range pod.Endpoints {
			all = append(all, s.listedLocked(listed, pod, e))
		}
	}
	return all
}

func (s *Scraper) listedLocked(to inspect.Target, pod metric.AnnouncedPod, e metric.Endpoint) inspect.Target {
	to.Endpoint, to.Names, to.Interval = fmt.Sprintf(":%d%s", e.Port, metric.Mask(e.Path)), e.Names, e.Interval.Seconds()
	t := s.targets[identityOf(pod, e)]
	if t == nil {
		to.State, to.Error = s.unscrapedLocked(pod)
		return to
	}
	to.Agent = t.agent.nodeName()
	now := t.state.Load()
	if now == nil {
		to.State = inspect.TargetWaiting
		return to
	}
	to.State, to.Result = inspect.TargetFailing, string(now.result)
	if now.result == ok {
		to.State = inspect.TargetUp
	}
	to.LastScrape, to.Error, to.Missing = now.at.UTC(), now.fault, now.missing
	if !now.succeeded.IsZero() {
		to.LastSuccess = now.succeeded.UTC()
	}
	to.Seconds, to.Samples, to.Bytes = now.took.Seconds(), t.samples.Load(), t.bytes.Load()
	return to
}

// unscrapedLocked says why nobody scrapes a pod.
func (s *Scraper) unscrapedLocked(pod metric.AnnouncedPod) (state, why string) {
	t, known := s.turns[s.parts.NodeOf(pod.Pod)]
	switch {
	case !pod.Address.IsValid():
		return inspect.TargetWaiting, "the pod has no address yet"
	case known && !t.here:
		return inspect.TargetElsewhere, "another replica scrapes"
	case !known || !t.may:
		return inspect.TargetWaiting, "the agent of the pod's node is expected, or another replica hands the pod over"
	}
	pods := "pods"
	if t.agent != nil {
		pods = "pods of the node"
	}
	return inspect.TargetSurplus,
		fmt.Sprintf("more than %d %s announce endpoints, and this one is among the youngest", MaxPods, pods)
}
