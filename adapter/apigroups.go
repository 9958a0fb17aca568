package adapter

import (
	"log/slog"
	"slices"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapi "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cmv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	cmv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	emv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver/installer"
)

// group is one API group.
type group struct {
	versions []schema.GroupVersion // the preferred one first
	list     func() []metav1.APIResource
	install  func(*installer.MetricsAPIGroupVersion)
	// routes adds the routes of a group that the metrics library does not serve; nil: install is
	// set.
	routes func(*restful.WebService)
}

// groupsOf returns the enabled groups.
func groupsOf(cfg Config, parts Parts, vain *vainQueries, asked *uses, rights operandRights) []group {
	source, known := parts.Source, objectsOf(parts.Cluster)
	names := catalogue{source: source, objects: known, limit: cfg.DiscoveryLimit}
	if parts.Policies != nil {
		names.hidden = parts.Policies.Hidden
	}
	var groups []group
	if cfg.CustomMetrics {
		groups = append(groups, group{
			versions: []schema.GroupVersion{cmv1beta2.SchemeGroupVersion, cmv1beta1.SchemeGroupVersion},
			list:     names.custom,
			install: func(v *installer.MetricsAPIGroupVersion) {
				v.DynamicStorage = &customStorage{source: source, objects: known, vain: vain, uses: asked, rights: rights}
				v.Handlers = &installer.CMHandlers{}
				// The library adds conversions of the options to its scheme, where this codec finds
				// them.
				v.ParameterCodec = runtime.NewParameterCodec(cmserver.Scheme)
			},
		})
	}
	if cfg.ExternalMetrics {
		groups = append(groups, group{
			versions: []schema.GroupVersion{emv1beta1.SchemeGroupVersion},
			list:     names.external,
			install: func(v *installer.MetricsAPIGroupVersion) {
				v.DynamicStorage = &externalStorage{source: source, policies: parts.Policies, vain: vain, uses: asked, rights: rights}
				v.Handlers = &installer.EMHandlers{}
				v.ParameterCodec = metav1.ParameterCodec
			},
		})
	}
	if parts.Inspect != nil {
		groups = append(groups, newInspection(parts.Inspect, parts.Policies, cfg.RequestTimeout/2).group())
	}
	return groups
}

// register adds the group to the server: the library's handlers over our storage. The library's
// InstallCustomMetricsAPI would announce only one of the two versions.
func (g group) register(server *genericapiserver.GenericAPIServer) error {
	container := server.Handler.GoRestfulContainer
	announced := metav1.APIGroup{Name: g.versions[0].Group}
	for _, v := range g.versions {
		announced.Versions = append(announced.Versions,
			metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.Version})
		if g.routes != nil {
			container.Add(g.webService(v))
			continue
		}
		version := installer.MetricsAPIGroupVersion{
			APIGroupVersion: &genericapi.APIGroupVersion{
				Root:            genericapiserver.APIGroupPrefix,
				GroupVersion:    v,
				Serializer:      cmserver.Codecs,
				Creater:         cmserver.Scheme,
				Convertor:       cmserver.Scheme,
				UnsafeConvertor: runtime.UnsafeObjectConvertor(cmserver.Scheme),
				Typer:           cmserver.Scheme,
				Namer:           runtime.Namer(meta.NewAccessor()),
			},
			ResourceLister: discovery.APIResourceListerFunc(g.list),
		}
		g.install(&version)
		if err := version.InstallREST(container); err != nil {
			return err
		}
	}
	announced.PreferredVersion = announced.Versions[0]
	server.DiscoveryGroupManager.AddGroup(announced)
	container.Add(discovery.NewAPIGroupHandler(server.Serializer, announced).WebService())
	return nil
}

// webService serves a version of a group with routes of its own.
func (g group) webService(v schema.GroupVersion) *restful.WebService {
	service := new(restful.WebService)
	service.Path(genericapiserver.APIGroupPrefix + "/" + v.String())
	discovery.NewAPIVersionHandler(cmserver.Codecs, v, discovery.APIResourceListerFunc(g.list)).AddToWebService(service)
	g.routes(service)
	return service
}

// newAggregatedDiscovery makes the aggregated discovery document of the groups.
func newAggregatedDiscovery(groups []group, logger *slog.Logger) *aggregatedDiscovery {
	documents := aggregated.NewResourceManager("apis")
	for _, g := range groups {
		for i, v := range g.versions {
			const groupPriority, topVersion = 1000, 100
			documents.SetGroupVersionPriority(metav1.GroupVersion(v), groupPriority, topVersion-i)
		}
	}
	return &aggregatedDiscovery{ResourceManager: documents, groups: groups, logger: logger}
}

// withVersion returns the list with group and version filled in, for the aggregated document.
func withVersion(list []metav1.APIResource, v schema.GroupVersion) []metav1.APIResource {
	list = slices.Clone(list)
	for i := range list {
		list[i].Group, list[i].Version = v.Group, v.Version
	}
	return list
}
