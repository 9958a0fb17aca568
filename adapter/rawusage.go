package adapter

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Raw usage is the points that windows are made of. The agents of the nodes have them, and are asked for each request.

// RawStat is a point.
type RawStat struct {
	Timestamp metav1.Time     `json:"timestamp"` // its end
	Window    metav1.Duration `json:"window"`
	Usage     CPUAndMemory    `json:"usage"` // the mean
}

// RawContainer has the points of a container, the oldest first.
type RawContainer struct {
	Name  string    `json:"name"`
	Stats []RawStat `json:"stats"`
}

// RawPod has the points of a pod's containers.
type RawPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Containers        []RawContainer `json:"containers"`
}

// RawPodList is a list of RawPod.
type RawPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RawPod `json:"items"`
}

// RawMachine has the points of a node, the oldest first.
type RawMachine struct {
	Stats []RawStat `json:"stats"`
}

// RawNode has the points of a node.
type RawNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Machine           RawMachine `json:"machine"`
}

// RawNodeList is a list of RawNode.
type RawNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RawNode `json:"items"`
}

// DeepCopyObject implements runtime.Object. Answers are made anew for each request, so what they hold is not copied.
func (p *RawPod) DeepCopyObject() runtime.Object      { q := *p; return &q }
func (p *RawPodList) DeepCopyObject() runtime.Object  { q := *p; return &q }
func (p *RawNode) DeepCopyObject() runtime.Object     { q := *p; return &q }
func (p *RawNodeList) DeepCopyObject() runtime.Object { q := *p; return &q }

type rawQueryKey struct{}

// withRawQuery keeps the parameters of requests for raw usage: the library has none but its own.
func withRawQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" && strings.Contains(r.URL.Path, "/raw") {
			r = r.WithContext(context.WithValue(r.Context(), rawQueryKey{}, r.URL.Query()))
		}
		next.ServeHTTP(w, r)
	})
}

const rawStep = 10 * time.Second

// rawQuery reads start, end, step and count.
func rawQuery(ctx context.Context, now time.Time) (q usage.PointsQuery, err error) {
	values, _ := ctx.Value(rawQueryKey{}).(url.Values)
	q = usage.PointsQuery{Step: rawStep, After: time.Unix(0, 0), Until: now}
	for name, moment := range map[string]*time.Time{"start": &q.After, "end": &q.Until} {
		if text := values.Get(name); text != "" {
			if *moment, err = time.Parse(time.RFC3339, strings.Trim(text, `"`)); err != nil {
				return q, metric.InvalidQueryf("%s is %q; must be a time, such as 2026-11-28T04:12:31Z", name, text)
			}
		}
	}
	if text := values.Get("step"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 17)
		if err != nil || seconds == 0 || seconds%10 != 0 {
			return q, metric.InvalidQueryf("step is %q; must be a multiple of 10 seconds, such as 60", text)
		}
		q.Step = time.Duration(seconds) * time.Second
	}
	if text := values.Get("count"); text != "" {
		count, err := strconv.ParseUint(text, 10, 31)
		if err != nil || count == 0 {
			return q, metric.InvalidQueryf("count is %q; must be a number from 1 on", text)
		}
		q.Count = int(count)
	}
	return q, nil
}

// maxRawNodes bounds the nodes whose agents one request asks, askingAtOnce how many at once, maxRawRequests the requests
// that ask or are answered at a time, and maxRawEach those of one reader: an answer takes some 20 MB until it is written.
const maxRawNodes, askingAtOnce, maxRawRequests, maxRawEach = 100, 10, 4, 2

// pointsKey names a pod on a node, or without a pod the node.
type pointsKey struct{ node, namespace, pod string }

// askRaw asks the agents of nodes for points.
func askRaw(ctx context.Context, slots *readerShares, source Usage, q *usage.PointsQuery,
	nodes []string) (map[pointsKey][]usage.ContainerPoints, error) {
	if len(nodes) > maxRawNodes {
		return nil, metric.InvalidQueryf("the points are of %d nodes; must be of at most %d: select a namespace, labels or names",
			len(nodes), maxRawNodes)
	}
	t := ticketOf(ctx)
	if full := slots.take(t.reader, 1, "requests for raw usage"); full != "" {
		return nil, apierrors.NewTooManyRequests(full, retryAfterSeconds)
	}
	t.ended = func() { slots.give(t.reader, 1) } // once the answer is written
	var mu sync.Mutex                            // guards the variables below
	var fault error
	total, found := 0, map[pointsKey][]usage.ContainerPoints{}
	var asking sync.WaitGroup
	atOnce := make(chan struct{}, askingAtOnce)
	for _, node := range nodes {
		atOnce <- struct{}{}
		asking.Go(func() {
			defer func() { <-atOnce }()
			all, err := source.Points(ctx, node, q)
			mu.Lock()
			defer mu.Unlock()
			for _, of := range all {
				if total += len(of.Points); total > usage.MaxPoints {
					err = usage.ErrTooManyPoints
					break
				}
				key := pointsKey{node, of.Container.Namespace, of.Container.Pod}
				found[key] = append(found[key], of)
			}
			if err != nil {
				fault = err
			}
		})
	}
	asking.Wait()
	return found, fault
}

func rawStats(points []usage.Used, since time.Time) (stats []RawStat) {
	for _, p := range points {
		if p.End.Add(-p.Length).Before(since) {
			continue // of a former pod of the name
		}
		stats = append(stats, RawStat{metav1.NewTime(p.End), metav1.Duration{Duration: p.Length},
			used(p.CPU, p.Memory)})
	}
	return stats
}

type rawPods struct {
	usageStorage
	slots *readerShares
}

func (*rawPods) New() runtime.Object     { return &RawPod{} }
func (*rawPods) NewList() runtime.Object { return &RawPodList{} }

// read reads the points of pods, whose order it keeps. name is that of all, or empty.
func (s *rawPods) read(ctx context.Context, pods []usage.Pod, name string) ([]RawPod, error) {
	of := target{resource: derivedVersion.WithResource("rawpods").GroupResource(), name: name}
	q, err := rawQuery(ctx, time.Now())
	if err != nil {
		return nil, of.status(err)
	}
	q.Namespace, q.Pod = request.NamespaceValue(ctx), name
	var nodes []string
	for i := range pods {
		if node := pods[i].Node; node != "" {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	found, err := askRaw(ctx, s.slots, s.source, &q, slices.Compact(nodes))
	if err != nil {
		return nil, of.status(err)
	}
	all := []RawPod{}
	for _, pod := range pods {
		raw := RawPod{}
		containers := found[pointsKey{pod.Node, pod.Namespace, pod.Name}]
		slices.SortFunc(containers, func(a, b usage.ContainerPoints) int {
			return strings.Compare(a.Container.Name, b.Container.Name)
		})
		for _, c := range containers {
			if stats := rawStats(c.Points, pod.Began()); stats != nil {
				raw.Containers = append(raw.Containers, RawContainer{c.Container.Name, stats})
			}
		}
		if raw.Containers != nil {
			raw.ObjectMeta = metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.LabelMap(),
				CreationTimestamp: metav1.NewTime(pod.Created)}
			all = append(all, raw)
		}
	}
	return all, nil
}

// Get implements rest.Getter.
func (s *rawPods) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	all, err := s.read(ctx, s.source.Pods(request.NamespaceValue(ctx), name, labels.Everything()), name)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, apierrors.NewNotFound(derivedVersion.WithResource("rawpods").GroupResource(), name)
	}
	return &all[0], nil
}

// List implements rest.Lister.
func (s *rawPods) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	all, err := s.read(ctx, s.pods(ctx, options), "")
	if err != nil {
		return nil, err
	}
	return &RawPodList{Items: all}, nil
}

// ConvertToTable implements rest.TableConvertor: a row of each container.
func (s *rawPods) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	table := rawTable("Container")
	add := func(p *RawPod) {
		for _, c := range p.Containers {
			addRaw(table, p, c.Stats, p.Name, c.Name)
		}
	}
	switch of := object.(type) {
	case *RawPod:
		add(of)
	case *RawPodList:
		for i := range of.Items {
			add(&of.Items[i])
		}
	default:
		return nil, fmt.Errorf("a table of %T", object)
	}
	return table, nil
}

// rawTable has the number of points and the newest.
func rawTable(more ...string) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"}}}
	for _, name := range append(more, "Points", "Newest", "Window", "CPU", "Memory") {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	return table
}

func addRaw(table *metav1.Table, object runtime.Object, stats []RawStat, names ...any) {
	newest := stats[len(stats)-1]
	row := append(names, strconv.Itoa(len(stats)), newest.Timestamp.UTC().Format(time.RFC3339),
		newest.Window.Duration.Round(time.Millisecond).String(),
		short(corev1.ResourceCPU, newest.Usage.CPU), short(corev1.ResourceMemory, newest.Usage.Memory))
	table.Rows = append(table.Rows, metav1.TableRow{Cells: row, Object: runtime.RawExtension{Object: object}})
}

type rawNodes struct {
	usageStorage
	slots *readerShares
}

func (*rawNodes) New() runtime.Object     { return &RawNode{} }
func (*rawNodes) NewList() runtime.Object { return &RawNodeList{} }

// read reads the points of nodes that are selected, by name.
func (s *rawNodes) read(ctx context.Context, name string, byLabels labels.Selector, byFields fields.Selector) ([]RawNode, error) {
	of := target{resource: derivedVersion.WithResource("rawnodes").GroupResource(), name: name}
	q, err := rawQuery(ctx, time.Now())
	if err != nil {
		return nil, of.status(err)
	}
	nodes, err := s.source.Nodes(name, byLabels)
	if err != nil {
		return nil, of.status(err)
	}
	nodes = slices.DeleteFunc(nodes, func(n UsedNode) bool { return !byFields.Matches(fields.Set{"metadata.name": n.Name}) })
	var names []string
	for i := range nodes {
		names = append(names, nodes[i].Name)
	}
	q.Node = true
	found, err := askRaw(ctx, s.slots, s.source, &q, names)
	if err != nil {
		return nil, of.status(err)
	}
	all := []RawNode{}
	for i := range nodes {
		for _, machine := range found[pointsKey{node: nodes[i].Name}] {
			all = append(all, RawNode{ObjectMeta: metav1.ObjectMeta{Name: nodes[i].Name, Labels: nodes[i].Labels},
				Machine: RawMachine{rawStats(machine.Points, time.Time{})}})
		}
	}
	return all, nil
}

// Get implements rest.Getter.
func (s *rawNodes) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	all, err := s.read(ctx, name, labels.Everything(), fields.Everything())
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, apierrors.NewNotFound(derivedVersion.WithResource("rawnodes").GroupResource(), name)
	}
	return &all[0], nil
}

// List implements rest.Lister.
func (s *rawNodes) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	byLabels, byFields := selectorsOf(options)
	all, err := s.read(ctx, "", byLabels, byFields)
	if err != nil {
		return nil, err
	}
	return &RawNodeList{Items: all}, nil
}

// ConvertToTable implements rest.TableConvertor.
func (s *rawNodes) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	table := rawTable()
	switch of := object.(type) {
	case *RawNode:
		addRaw(table, of, of.Machine.Stats, of.Name)
	case *RawNodeList:
		for i := range of.Items {
			addRaw(table, &of.Items[i], of.Items[i].Machine.Stats, of.Items[i].Name)
		}
	default:
		return nil, fmt.Errorf("a table of %T", object)
	}
	return table, nil
}
