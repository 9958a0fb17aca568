package adapter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	resourcemetrics "k8s.io/metrics/pkg/apis/metrics"
	"k8s.io/metrics/pkg/apis/metrics/install"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Usage knows what pods and nodes use: it answers metrics.k8s.io and usage.sluice.dev. Any goroutine may call it.
type Usage interface {
	// Pods lists the live pods of a namespace (empty: of all), of a name (empty: any), whose labels a selector matches.
	Pods(namespace, name string, selector labels.Selector) []usage.Pod
	// Served returns what the containers of a pod use, and the measurement's end and window. Not ok: it is not known.
	Served(*usage.Pod) (containers []usage.Record, end time.Time, window time.Duration, ok bool)
	// Containers returns what the containers of a pod use.
	Containers(*usage.Pod) []usage.Record
	// Nodes lists the nodes of which usage is known. The error is metric.ErrInvalidQuery if labels of nodes
	// are not known, and the selector asks for some.
	Nodes(name string, selector labels.Selector) ([]UsedNode, error)
	// Points asks the agent of a node for points. The error is metric.ErrInvalidQuery if there are too many, and
	// metric.ErrNotReady if the agent does not answer.
	Points(ctx context.Context, node string, query *usage.PointsQuery) ([]usage.ContainerPoints, error)
	// Version numbers the reports: that of a node, and the newest of all. It grows with each. 0: the node has none that is
	// served.
	Version(node string) (of, newest uint64)
}

// UsedNode is a node and what it uses.
type UsedNode struct {
	Name   string
	Labels map[string]string
	*usage.Record
}

// usageScheme and usageCodecs are of metrics.k8s.io alone: the types of the custom metrics library have others.
var (
	usageScheme = runtime.NewScheme()
	usageCodecs = serializer.NewCodecFactory(usageScheme)
)

// usageV1 is metrics.k8s.io/v1 of Kubernetes 1.37, whose types are those of v1beta1.
var usageV1 = schema.GroupVersion{Group: resourcemetrics.GroupName, Version: "v1"}

func init() {
	install.Install(usageScheme)
	usageScheme.AddKnownTypes(usageV1, &v1beta1.PodMetrics{}, &v1beta1.PodMetricsList{}, &v1beta1.NodeMetrics{}, &v1beta1.NodeMetricsList{})
	metav1.AddToGroupVersion(usageScheme, usageV1)
	if err := usageScheme.SetVersionPriority(usageV1, v1beta1.SchemeGroupVersion); err != nil {
		panic(err) // another group
	}
	metav1.AddToGroupVersion(usageScheme, schema.GroupVersion{Version: "v1"})
}

// installUsage serves metrics.k8s.io, as metrics-server does: https://github.com/kubernetes-sigs/metrics-server.
func installUsage(server *genericapiserver.GenericAPIServer, source Usage) error {
	info := genericapiserver.NewDefaultAPIGroupInfo(resourcemetrics.GroupName, usageScheme, metav1.ParameterCodec, usageCodecs)
	for _, version := range info.PrioritizedVersions {
		info.VersionedResourcesStorageMap[version.Version] = map[string]rest.Storage{
			"pods":  &podUsage{usageStorage{true, "PodMetrics", source}},
			"nodes": &nodeUsage{usageStorage{false, "NodeMetrics", source}},
		}
	}
	return server.InstallAPIGroup(&info)
}

// usageStorage is what the storages of both resources share.
type usageStorage struct {
	namespaced bool
	kind       string
	source     Usage
}

func (usageStorage) Destroy()                {}
func (s usageStorage) Kind() string          { return s.kind }
func (s usageStorage) NamespaceScoped() bool { return s.namespaced }
func (usageStorage) GetSingularName() string { return "" }

// selected lists the pods that a request selects, in any order.
func (s usageStorage) selected(ctx context.Context, options *metainternalversion.ListOptions) []usage.Pod {
	byLabels, byFields := selectorsOf(options)
	pods := s.source.Pods(request.NamespaceValue(ctx), "", byLabels)
	if byFields.Empty() {
		return pods
	}
	return slices.DeleteFunc(pods, func(pod usage.Pod) bool {
		return !byFields.Matches(fields.Set{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace})
	})
}

// pods lists the pods that a request selects, by namespace and name.
func (s usageStorage) pods(ctx context.Context, options *metainternalversion.ListOptions) []usage.Pod {
	pods := s.selected(ctx, options)
	slices.SortFunc(pods, func(a, b usage.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return pods
}

// named selects the pods of a name in a request's namespace.
func (s usageStorage) named(ctx context.Context, name string) func() []usage.Pod {
	return func() []usage.Pod { return s.source.Pods(request.NamespaceValue(ctx), name, labels.Everything()) }
}

// podUsage answers for pods.
type podUsage struct{ usageStorage }

func (*podUsage) New() runtime.Object     { return &resourcemetrics.PodMetrics{} }
func (*podUsage) NewList() runtime.Object { return &resourcemetrics.PodMetricsList{} }

// Get implements rest.Getter.
func (s *podUsage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	namespace := request.NamespaceValue(ctx)
	pods, made, err := s.admitPods(ctx, servedBytes, s.named(ctx, name))
	if err != nil {
		return nil, err
	}
	defer made()
	if len(pods) == 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	m, ok := s.metrics(&pods[0])
	if !ok {
		return nil, apierrors.NewNotFound(resourcemetrics.Resource("podmetrics"), namespace+"/"+name)
	}
	return &m, nil
}

// List implements rest.Lister.
func (s *podUsage) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	pods, made, err := s.admitPods(ctx, servedBytes, func() []usage.Pod { return s.pods(ctx, options) })
	if err != nil {
		return nil, err
	}
	defer made()
	list := &resourcemetrics.PodMetricsList{Items: []resourcemetrics.PodMetrics{}}
	for _, pod := range pods {
		if m, ok := s.metrics(&pod); ok {
			list.Items = append(list.Items, m)
		}
	}
	return list, nil
}

func selectorsOf(options *metainternalversion.ListOptions) (labels.Selector, fields.Selector) {
	byLabels, byFields := labels.Everything(), fields.Everything()
	if options != nil && options.LabelSelector != nil {
		byLabels = options.LabelSelector
	}
	if options != nil && options.FieldSelector != nil {
		byFields = options.FieldSelector
	}
	return byLabels, byFields
}

func (s *podUsage) metrics(pod *usage.Pod) (m resourcemetrics.PodMetrics, ok bool) {
	containers, end, window, ok := s.source.Served(pod)
	if !ok {
		return m, false
	}
	m = resourcemetrics.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.LabelMap(), CreationTimestamp: metav1.Now()},
		Timestamp:  metav1.NewTime(end), Window: metav1.Duration{Duration: window},
		Containers: make([]resourcemetrics.ContainerMetrics, 0, len(containers)),
	}
	for i := range containers {
		m.Containers = append(m.Containers, resourcemetrics.ContainerMetrics{Name: containers[i].Container.Name, Usage: quantities(&containers[i].Newest)})
	}
	return m, true
}

// quantities writes usage in the units of metrics-server: billionths of a core, and bytes.
func quantities(n *usage.Newest) corev1.ResourceList {
	cpu, memory := resource.NewScaledQuantity(int64(n.CPU), resource.Nano), resource.NewQuantity(int64(n.Memory), resource.BinarySI)
	cpu.Format = resource.DecimalSI
	return corev1.ResourceList{corev1.ResourceCPU: *cpu, corev1.ResourceMemory: *memory}
}

// ConvertToTable implements rest.TableConvertor.
func (s *podUsage) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	table := usageTable()
	return tableOf(table, object, func(m *resourcemetrics.PodMetrics) {
		sum := corev1.ResourceList{}
		for _, c := range m.Containers {
			for name, used := range c.Usage {
				total := sum[name]
				total.Add(used)
				sum[name] = total
			}
		}
		addUsed(table, m, m.Name, sum, m.Window)
	})
}

// tableOf adds the rows of an object, or of the objects of a list.
func tableOf[T runtime.Object](table *metav1.Table, object runtime.Object, add func(T)) (*metav1.Table, error) {
	addOne := func(object runtime.Object) error {
		of, ok := object.(T)
		if !ok {
			return fmt.Errorf("a table of %T", object)
		}
		add(of)
		return nil
	}
	if meta.IsListType(object) {
		return table, meta.EachListItem(object, addOne)
	}
	return table, addOne(object)
}

func usageTable() *metav1.Table {
	return &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"},
		{Name: "cpu", Type: "string", Format: "quantity"},
		{Name: "memory", Type: "string", Format: "quantity"},
		{Name: "Window", Type: "string", Format: "duration"},
	}}
}

func addUsed(table *metav1.Table, object runtime.Object, name string, used corev1.ResourceList, window metav1.Duration) {
	table.Rows = append(table.Rows, metav1.TableRow{Object: runtime.RawExtension{Object: object},
		Cells: []any{name, used.Cpu().String(), used.Memory().String(), window.Duration.String()}})
}

// nodeUsage answers for nodes.
type nodeUsage struct{ usageStorage }

func (*nodeUsage) New() runtime.Object     { return &resourcemetrics.NodeMetrics{} }
func (*nodeUsage) NewList() runtime.Object { return &resourcemetrics.NodeMetricsList{} }

// Get implements rest.Getter.
func (s *nodeUsage) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	nodes, err := s.source.Nodes(name, labels.Everything())
	if err != nil {
		return nil, target{resource: schema.GroupResource{Group: resourcemetrics.GroupName, Resource: "nodes"}, name: name}.status(err)
	}
	for i := range nodes {
		if m, ok := nodeMetrics(&nodes[i]); ok {
			return &m, nil
		}
	}
	return nil, apierrors.NewNotFound(resourcemetrics.Resource("nodemetrics"), name)
}

// List implements rest.Lister.
func (s *nodeUsage) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	byLabels, byFields := selectorsOf(options)
	nodes, made, err := admitNodes(ctx, servedBytes, func() ([]UsedNode, error) {
		nodes, err := s.source.Nodes("", byLabels)
		if err != nil {
			err = target{resource: schema.GroupResource{Group: resourcemetrics.GroupName, Resource: "nodes"}}.status(err)
		}
		return nodes, err
	})
	if err != nil {
		return nil, err
	}
	defer made()
	list := &resourcemetrics.NodeMetricsList{Items: []resourcemetrics.NodeMetrics{}}
	for i := range nodes {
		if !byFields.Matches(fields.Set{"metadata.name": nodes[i].Name}) {
			continue
		}
		if m, ok := nodeMetrics(&nodes[i]); ok {
			list.Items = append(list.Items, m)
		}
	}
	return list, nil
}

func nodeMetrics(node *UsedNode) (m resourcemetrics.NodeMetrics, ok bool) {
	if node.Newest.State != usage.Known {
		return m, false
	}
	return resourcemetrics.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, CreationTimestamp: metav1.Now()},
		Timestamp:  metav1.NewTime(node.Newest.End), Window: metav1.Duration{Duration: node.Newest.Window}, Usage: quantities(&node.Newest),
	}, true
}

// ConvertToTable implements rest.TableConvertor.
func (s *nodeUsage) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	table := usageTable()
	return tableOf(table, object, func(m *resourcemetrics.NodeMetrics) { addUsed(table, m, m.Name, m.Usage, m.Window) })
}

// usageDefinitions are the schemas of metrics.k8s.io, for which its library has none, and of usage.sluice.dev.
func usageDefinitions(reference openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	text := *spec.StringProperty()
	used := *spec.MapProperty(&text)
	refer := func(to any) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Ref: reference(openapiutil.GetCanonicalTypeName(to))}}
	}
	object := func(of map[string]spec.Schema) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: of}}
	}
	document := func(metadata any, more map[string]spec.Schema) spec.Schema {
		more["kind"], more["apiVersion"], more["metadata"] = text, text, refer(metadata)
		return object(more)
	}
	items := func(of any) map[string]spec.Schema {
		item := refer(of)
		return map[string]spec.Schema{"items": *spec.ArrayProperty(&item)}
	}
	container := object(map[string]spec.Schema{"name": text, "usage": used})
	timed := func(more map[string]spec.Schema) spec.Schema {
		more["timestamp"], more["window"] = *spec.DateTimeProperty(), text
		return document(metav1.ObjectMeta{}, more)
	}
	all := map[string]openapicommon.OpenAPIDefinition{}
	define := func(model any, schema spec.Schema, dependencies ...any) {
		d := openapicommon.OpenAPIDefinition{Schema: schema}
		for _, other := range dependencies {
			d.Dependencies = append(d.Dependencies, openapiutil.GetCanonicalTypeName(other))
		}
		all[openapiutil.GetCanonicalTypeName(model)] = d
	}
	windows := object(map[string]spec.Schema{"endtime": *spec.DateTimeProperty(), "covered": text, "mean": used, "max": used, "95th": used})
	derived := *spec.MapProperty(&windows)
	derivedContainer := object(map[string]spec.Schema{"name": text, "metrics": derived})
	define(DerivedPod{}, document(metav1.ObjectMeta{}, map[string]spec.Schema{"containers": *spec.ArrayProperty(&derivedContainer)}), metav1.ObjectMeta{})
	define(DerivedNode{}, document(metav1.ObjectMeta{}, map[string]spec.Schema{"machine": derived}), metav1.ObjectMeta{})
	define(DerivedPodList{}, document(metav1.ListMeta{}, items(DerivedPod{})), metav1.ListMeta{}, DerivedPod{})
	define(DerivedNodeList{}, document(metav1.ListMeta{}, items(DerivedNode{})), metav1.ListMeta{}, DerivedNode{})
	rawUsed := object(map[string]spec.Schema{"cpu": text, "memory": text})
	rawStat := object(map[string]spec.Schema{"timestamp": *spec.DateTimeProperty(), "window": text, "usage": rawUsed})
	stats := map[string]spec.Schema{"stats": *spec.ArrayProperty(&rawStat)}
	rawContainer := object(map[string]spec.Schema{"name": text, "stats": stats["stats"]})
	define(RawPod{}, document(metav1.ObjectMeta{}, map[string]spec.Schema{"containers": *spec.ArrayProperty(&rawContainer)}), metav1.ObjectMeta{})
	define(RawNode{}, document(metav1.ObjectMeta{}, map[string]spec.Schema{"machine": object(stats)}), metav1.ObjectMeta{})
	define(RawPodList{}, document(metav1.ListMeta{}, items(RawPod{})), metav1.ListMeta{}, RawPod{})
	define(RawNodeList{}, document(metav1.ListMeta{}, items(RawNode{})), metav1.ListMeta{}, RawNode{})
	define(metav1.WatchEvent{}, object(map[string]spec.Schema{"type": text, "object": object(nil)}))
	define(v1beta1.PodMetrics{}, timed(map[string]spec.Schema{"containers": *spec.ArrayProperty(&container)}), metav1.ObjectMeta{})
	define(v1beta1.NodeMetrics{}, timed(map[string]spec.Schema{"usage": used}), metav1.ObjectMeta{})
	define(v1beta1.PodMetricsList{}, document(metav1.ListMeta{}, items(v1beta1.PodMetrics{})), metav1.ListMeta{}, v1beta1.PodMetrics{})
	define(v1beta1.NodeMetricsList{}, document(metav1.ListMeta{}, items(v1beta1.NodeMetrics{})), metav1.ListMeta{}, v1beta1.NodeMetrics{})
	return all
}
