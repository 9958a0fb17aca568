package rollup

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
)

// shop is a namespace of a cluster with a table. Its methods set it up.
type shop struct {
	t      *testing.T
	table  *aggregate.Table
	w      *aggregate.Writer
	reader *Reader
	// pods are the live pods by name, with their workloads.
	pods    map[string]metric.Workload
	unready map[string]bool
	// services are the pods of Services.
	services map[string][]string
	asked    int // calls of PodOwners
	// announced are the metrics that pods announce, as "web-1 requests".
	announced map[string]bool
}

func newShop(t *testing.T) *shop {
	s := &shop{t: t, pods: map[string]metric.Workload{}, unready: map[string]bool{}, services: map[string][]string{}}
	s.table = aggregate.New(aggregate.DefaultConfig(), func(from *metric.Sample, d *metric.Description) metric.Reason {
		d.Object, d.Labels = *from.Object, metric.SortLabels(from.AppendLabels(nil))
		return metric.Applied
	}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.table.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	tracker := NewTracker(s)
	s.table.SetObserver(tracker)
	s.w = s.table.NewWriter()
	s.w.Offline()
	merged := aggregate.NewMerged(s.table)
	s.reader = New(Parts{Begin: func() Snapshot { return merged.Begin() }, Cluster: s, Workloads: tracker,
		Announces: func(pod metric.Object, name string) bool { return s.announced[pod.Name+" "+name] }})
	return s
}

// run makes pods of a Deployment.
func (s *shop) run(deployment string, pods ...string) {
	for _, name := range pods {
		s.pods[name] = metric.Workload{Kind: "Deployment", Name: deployment, UID: deployment}
	}
}

// push applies samples: "pods/web-1 requests:3|c|#code:200".
func (s *shop) push(samples ...string) {
	s.t.Helper()
	s.w.Online()
	defer s.w.Offline()
	for _, text := range samples {
		object, line, _ := strings.Cut(text, " ")
		o := metric.Object{Namespace: "shop"}
		o.Resource, o.Name, _ = strings.Cut(object, "/")
		fields := strings.Split(line, "|")
		name, value, _ := strings.Cut(fields[0], ":")
		sample := &metric.Sample{Name: []byte(name), Separator: ':', Object: &o}
		switch fields[1] {
		case "c":
			sample.Kind, sample.Op = metric.Counter, metric.Add
		case "g":
			sample.Kind, sample.Op = metric.Gauge, metric.Assign
		case "ms":
			sample.Kind, sample.Op = metric.Timer, metric.Observe
		case "s":
			sample.Kind, sample.Op, sample.Member = metric.Set, metric.Insert, []byte(value)
		}
		if sample.Whole, _ = strconv.ParseInt(value, 10, 64); len(fields) > 2 {
			sample.Tags = []byte(strings.TrimPrefix(fields[2], "#"))
		}
		if r := s.w.Apply(sample); r != metric.Applied {
			s.t.Fatalf("%s: %s", text, r)
		}
	}
}

// ask returns the points of "deployments.apps/web requests:count{code=200}", or the error.
func (s *shop) ask(m *Moment, question string) string {
	points, err := m.Objects(query(question))
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, p := range points {
		text := p.Object.Name + "=" + string(p.Value.Append(nil))
		if p.Pods.Of > 0 {
			text += fmt.Sprintf(" (%d of %d)", p.Pods.With, p.Pods.Of)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func query(question string) metric.Query {
	object, expression, _ := strings.Cut(question, " ")
	expression, selector, selects := strings.Cut(strings.TrimSuffix(expression, "}"), "{")
	q := metric.Query{Namespace: "shop", Expression: metric.ParseExpression(expression)}
	q.Resource, q.Object, _ = strings.Cut(object, "/")
	if key, value, _ := strings.Cut(selector, "="); selects {
		q.MatchLabels = func(l metric.Labels) bool { v, _ := l.Get(key); return v == value }
	}
	return q
}

func (s *shop) wants(answers map[string]string) {
	s.t.Helper()
	for question, want := range answers {
		if got := s.ask(s.reader.Begin(), question); got != want {
			s.t.Errorf("%s: %s; want %s", question, got, want)
		}
	}
}

func podNamed(name string) metric.Object {
	return metric.Object{Resource: "pods", Namespace: "shop", Name: name}
}

func (s *shop) set(names []string) metric.PodSet {
	return metric.PodSet{
		Len: len(names),
		All: func(yield func(metric.Object) bool) {
			for _, name := range names {
				if !yield(podNamed(name)) {
					return
				}
			}
		},
		Ready: func(yield func(metric.Object, metric.Workload) bool) {
			for _, name := range names {
				if pod := s.pods[name]; !s.unready[name] && pod.UID != "" && !yield(podNamed(name), pod) {
					return
				}
			}
		},
	}
}

// PodOwners implements Cluster.
func (s *shop) PodOwners(resource, namespace, name string) (all []metric.PodOwner, err error) {
	s.asked++
	pods := map[string][]string{}
	switch resource {
	case "deployments.apps":
		for pod, workload := range s.pods {
			pods[workload.Name] = append(pods[workload.Name], pod)
		}
		delete(pods, "")
	case "services":
		pods = s.services
		if pods == nil {
			return nil, metric.NotReadyf("EndpointSlices are not known")
		}
	}
	for owner, names := range pods {
		if name == "*" || name == owner {
			all = append(all, metric.PodOwner{Pods: s.set(names), Object: metric.Object{Resource: resource, Namespace: namespace, Name: owner}})
		}
	}
	slices.SortFunc(all, func(a, b metric.PodOwner) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return all, nil
}

// ReadyPods implements Cluster.
func (s *shop) ReadyPods(string) (iter.Seq2[metric.Object, metric.Workload], int) {
	var all []string
	for name := range s.pods {
		all = append(all, name)
	}
	return s.set(all).Ready, len(all)
}

// ReadyPod implements Cluster.
func (s *shop) ReadyPod(_, name string) (metric.Object, metric.Workload, bool) {
	pod, lives := s.pods[name]
	return podNamed(name), pod, lives && !s.unready[name]
}

// Workload implements Pods.
func (s *shop) Workload(o metric.Object) (workload metric.Workload, resolved, ok bool) {
	workload, lives := s.pods[o.Name]
	return workload, true, lives && workload.UID != ""
}

// Owner implements Pods.
func (s *shop) Owner(workload metric.Workload) (metric.Workload, bool) { return workload, true }

// Workloads implements Pods.
func (s *shop) Workloads() iter.Seq[metric.Workload] { return func(func(metric.Workload) bool) {} }
