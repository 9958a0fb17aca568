package adapter

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// derivedVersion is the API group of usage over windows.
var derivedVersion = schema.GroupVersion{Group: "usage.sluice.dev", Version: "v1alpha1"}

// derivedWindows are the names of windows in documents.
var derivedWindows = [usage.Windows]string{"10s", "1m", "1h", "1d"}

// DerivedMetrics is what was used in a window.
type DerivedMetrics struct {
	// EndTime is that of all windows.
	EndTime    metav1.Time     `json:"endtime"`
	Covered    metav1.Duration `json:"covered"`
	Mean       CPUAndMemory    `json:"mean"`
	Max        CPUAndMemory    `json:"max"`
	NinetyFive CPUAndMemory    `json:"95th"`
}

// CPUAndMemory is encoded as a corev1.ResourceList is, which is a map and takes six times as much memory.
type CPUAndMemory struct {
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
}

func (s *CPUAndMemory) add(more CPUAndMemory) {
	s.CPU.Add(more.CPU)
	s.Memory.Add(more.Memory)
}

// DerivedContainer is what a container used.
type DerivedContainer struct {
	Name    string                    `json:"name"`
	Metrics map[string]DerivedMetrics `json:"metrics"`
}

// DerivedPod is what the containers of a pod used.
type DerivedPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Containers        []DerivedContainer `json:"containers"`
}

// DerivedPodList is a list of DerivedPod.
type DerivedPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DerivedPod `json:"items"`
}

// DerivedNode is what a node used.
type DerivedNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Machine           map[string]DerivedMetrics `json:"machine"`
}

// DerivedNodeList is a list of DerivedNode.
type DerivedNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DerivedNode `json:"items"`
}

// DeepCopyObject implements runtime.Object. Answers are made anew for each request, so what they hold is not copied.
func (p *DerivedPod) DeepCopyObject() runtime.Object      { q := *p; return &q }
func (p *DerivedPodList) DeepCopyObject() runtime.Object  { q := *p; return &q }
func (p *DerivedNode) DeepCopyObject() runtime.Object     { q := *p; return &q }
func (p *DerivedNodeList) DeepCopyObject() runtime.Object { q := *p; return &q }

func init() {
	for _, version := range []schema.GroupVersion{derivedVersion, {Group: derivedVersion.Group, Version: runtime.APIVersionInternal}} {
		usageScheme.AddKnownTypes(version, &DerivedPod{}, &DerivedPodList{}, &DerivedNode{}, &DerivedNodeList{},
			&RawPod{}, &RawPodList{}, &RawNode{}, &RawNodeList{})
	}
	metav1.AddToGroupVersion(usageScheme, derivedVersion)
}

// derivedMetrics are the windows of a record; nil: there is nothing.
func derivedMetrics(r *usage.Record) map[string]DerivedMetrics {
	cpu, memory := &r.CPU, &r.Memory
	if cpu.End.IsZero() || memory.End.IsZero() {
		return nil
	}
	end := cpu.End
	if memory.End.Before(end) {
		end = memory.End
	}
	all := map[string]DerivedMetrics{}
	for w, name := range derivedWindows {
		c, m := cpu.Windows[w], memory.Windows[w]
		all[name] = DerivedMetrics{EndTime: metav1.NewTime(end), Covered: metav1.Duration{Duration: min(c.Covered, m.Covered)},
			Mean: used(c.Mean, m.Mean), Max: used(c.Max, m.Max), NinetyFive: used(c.NinetyFive, m.NinetyFive)}
	}
	return all
}

func used(cpu, memory float64) CPUAndMemory { return CPUAndMemory{coresOf(cpu), bytesOf(memory)} }

// coresOf writes millionths, which is what histories hold.
func coresOf(n float64) resource.Quantity {
	return *resource.NewScaledQuantity(int64(n*1e6+0.5), resource.Micro)
}

func bytesOf(n float64) resource.Quantity {
	return *resource.NewQuantity(int64(n+0.5), resource.BinarySI)
}

// installDerivedUsage serves usage.sluice.dev.
func installDerivedUsage(server *genericapiserver.GenericAPIServer, source Usage, bounds watchBounds) error {
	raw := newReaderShares(maxRawRequests, maxRawEach)
	info := genericapiserver.NewDefaultAPIGroupInfo(derivedVersion.Group, usageScheme, metav1.ParameterCodec, usageCodecs)
	info.VersionedResourcesStorageMap[derivedVersion.Version] = map[string]rest.Storage{
		"derivedpods":  &derivedPods{usageStorage{true, "DerivedPod", source}, bounds},
		"derivednodes": &derivedNodes{usageStorage{false, "DerivedNode", source}, bounds},
		"rawpods":      &rawPods{usageStorage{true, "RawPod", source}, raw},
		"rawnodes":     &rawNodes{usageStorage{false, "RawNode", source}, raw},
	}
	return server.InstallAPIGroup(&info)
}

type derivedPods struct {
	usageStorage
	bounds watchBounds
}

func (*derivedPods) New() runtime.Object     { return &DerivedPod{} }
func (*derivedPods) NewList() runtime.Object { return &DerivedPodList{} }

func (s *derivedPods) derive(pod *usage.Pod) (d DerivedPod, ok bool) {
	version := s.versionOf(pod.Node)
	for _, r := range s.source.Containers(pod) {
		if metrics := derivedMetrics(&r); metrics != nil && !pod.Renewed(&r) {
			d.Containers = append(d.Containers, DerivedContainer{r.Container.Name, metrics})
		}
	}
	if len(d.Containers) == 0 {
		return d, false
	}
	d.ObjectMeta = metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.LabelMap(),
		CreationTimestamp: metav1.NewTime(pod.Created), ResourceVersion: version}
	return d, true
}

// Get implements rest.Getter.
func (s *derivedPods) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	pods, made, err := s.admitPods(ctx, derivedBytes, s.named(ctx, name))
	if err != nil {
		return nil, err
	}
	defer made()
	for _, pod := range pods {
		if d, ok := s.derive(&pod); ok {
			return &d, nil
		}
	}
	return nil, apierrors.NewNotFound(derivedVersion.WithResource("derivedpods").GroupResource(), name)
}

// List implements rest.Lister.
func (s *derivedPods) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	version := versionText(s.newest())
	pods, made, err := s.admitPods(ctx, derivedBytes, func() []usage.Pod { return s.pods(ctx, options) })
	if err != nil {
		return nil, err
	}
	defer made()
	list := &DerivedPodList{Items: []DerivedPod{}, ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, pod := range pods {
		if d, ok := s.derive(&pod); ok {
			list.Items = append(list.Items, d)
		}
	}
	return list, nil
}

// ConvertToTable implements rest.TableConvertor: the sum of the containers of each pod.
func (s *derivedPods) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	table := derivedTable()
	return tableOf(table, object, func(p *DerivedPod) {
		all := make([]map[string]DerivedMetrics, 0, len(p.Containers))
		for i := range p.Containers {
			all = append(all, p.Containers[i].Metrics)
		}
		addDerived(table, p, p.Name, all...)
	})
}

func derivedTable() *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"}}}
	for _, window := range derivedWindows {
		for i, of := range []string{"CPU", "Memory"} {
			priority := int32(0)
			if window == "1h" || window == "1d" {
				priority = int32(i % 2) // in wide output
			}
			table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: of + " " + window, Type: "string",
				Description: "mean over " + window + ", and 95th percentile", Priority: priority})
		}
	}
	return table
}

func addDerived(table *metav1.Table, object runtime.Object, name string, containers ...map[string]DerivedMetrics) {
	row := []any{name}
	for _, window := range derivedWindows {
		var mean, high CPUAndMemory
		for _, metrics := range containers {
			mean.add(metrics[window].Mean)
			high.add(metrics[window].NinetyFive)
		}
		row = append(row, short(corev1.ResourceCPU, mean.CPU)+" / "+short(corev1.ResourceCPU, high.CPU),
			short(corev1.ResourceMemory, mean.Memory)+" / "+short(corev1.ResourceMemory, high.Memory))
	}
	table.Rows = append(table.Rows, metav1.TableRow{Cells: row, Object: runtime.RawExtension{Object: object}})
}

// short writes thousandths of cores, and MiB, as kubectl top does.
func short(of corev1.ResourceName, q resource.Quantity) string {
	if of == corev1.ResourceCPU {
		return fmt.Sprintf("%dm", q.MilliValue())
	}
	return fmt.Sprintf("%dMi", q.Value()>>20)
}

type derivedNodes struct {
	usageStorage
	bounds watchBounds
}

func (*derivedNodes) New() runtime.Object     { return &DerivedNode{} }
func (*derivedNodes) NewList() runtime.Object { return &DerivedNodeList{} }

// nodes lists the nodes that are selected.
func (s *derivedNodes) nodes(name string, byLabels labels.Selector, byFields fields.Selector) ([]UsedNode, error) {
	nodes, err := s.source.Nodes(name, byLabels)
	if err != nil {
		return nil, target{resource: derivedVersion.WithResource("derivednodes").GroupResource(), name: name}.status(err)
	}
	return slices.DeleteFunc(nodes, func(n UsedNode) bool { return !byFields.Matches(fields.Set{"metadata.name": n.Name}) }), nil
}

func (s *derivedNodes) derive(nodes []UsedNode) []DerivedNode {
	all := []DerivedNode{}
	for i := range nodes {
		if metrics := derivedMetrics(nodes[i].Record); metrics != nil {
			all = append(all, DerivedNode{Machine: metrics, ObjectMeta: metav1.ObjectMeta{Name: nodes[i].Name, Labels: nodes[i].Labels,
				ResourceVersion: s.versionOf(nodes[i].Name)}})
		}
	}
	return all
}

// one is what a node uses; nil: nothing is known.
func (s *derivedNodes) one(name string) (*DerivedNode, error) {
	nodes, err := s.nodes(name, labels.Everything(), fields.Everything())
	if all := s.derive(nodes); len(all) > 0 {
		return &all[0], err
	}
	return nil, err
}

// Get implements rest.Getter.
func (s *derivedNodes) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	one, err := s.one(name)
	if err != nil {
		return nil, err
	}
	if one == nil {
		return nil, apierrors.NewNotFound(derivedVersion.WithResource("derivednodes").GroupResource(), name)
	}
	return one, nil
}

// List implements rest.Lister.
func (s *derivedNodes) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	byLabels, byFields := selectorsOf(options)
	version := versionText(s.newest())
	nodes, made, err := admitNodes(ctx, derivedBytes, func() ([]UsedNode, error) { return s.nodes("", byLabels, byFields) })
	if err != nil {
		return nil, err
	}
	defer made()
	return &DerivedNodeList{Items: s.derive(nodes), ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
}

// ConvertToTable implements rest.TableConvertor.
func (s *derivedNodes) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	table := derivedTable()
	return tableOf(table, object, func(n *DerivedNode) { addDerived(table, n, n.Name, n.Machine) })
}
