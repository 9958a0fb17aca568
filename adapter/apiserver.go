package adapter

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	genericapi "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/util/compatibility"
	restclient "k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	cmv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	cmv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	emv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver/installer"
	coreopenapi "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/core"
	cmopenapi "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/custommetrics"
	emopenapi "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/externalmetrics"
)

// newAPIServer builds the API server from the Kubernetes library and our groups, without etcd and
// informers. The custom metrics library's AdapterBase would require a cluster.
func (s *Server) newAPIServer(cfg Config, groups []group,
	certificate dynamiccertificates.CertKeyContentProvider) (*genericapiserver.GenericAPIServer, error) {
	c := genericapiserver.NewConfig(cmserver.Codecs)
	c.SecureServing = new(genericapiserver.SecureServingInfo)
	c.ExternalAddress = s.Addr().String()
	// The library requires a loopback configuration, although nothing uses it.
	c.LoopbackClientConfig = &restclient.Config{Host: "https://" + s.Addr().String()}
	if err := s.access.applyTo(c); err != nil {
		return nil, fmt.Errorf("apply access: %w", err)
	}
	s.http = newHTTPServer(s.listener, cfg, certificate, c.SecureServing.ClientCA, s.access.isProxy, s.logger)
	c.SecureServing = &genericapiserver.SecureServingInfo{Listener: s.http.door}
	c.AddReadyzChecks(s.readyz())
	c.ShutdownDelayDuration = cfg.ShutdownDelay

	c.RequestTimeout = cfg.RequestTimeout
	c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight = 0, 0 // limitInFlight replaces them
	c.StorageObjectCountTracker = nil                           // nothing is stored
	c.EnableProfiling = false                                   // the operations port has profiles
	c.EnableMetrics = false                                     // the operations port has Sluice's own
	c.BuildHandlerChainFunc = s.handlerChain(cfg)
	c.AggregatedDiscoveryGroupManager = newAggregatedDiscovery(groups, s.logger)
	c.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions,
		openapinamer.NewDefinitionNamer(cmserver.Scheme))
	c.OpenAPIConfig.Info.Title = "sluice"
	c.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions,
		openapinamer.NewDefinitionNamer(cmserver.Scheme))
	c.OpenAPIV3Config.Info.Title = "sluice"

	c.EffectiveVersion = effectiveVersion{compatibility.DefaultBuildEffectiveVersion()}

	// The custom metrics library's own server would replace our version and groups (see
	// group.register).
	server, err := c.Complete(nil).New("sluice", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("prepare the API server: %w", err)
	}
	if s.usage != nil {
		bounds := watchBounds{s.ending, operandRights{s.access.authorizer}, newReaderShares(maxWatchedUsage, 0)}
		if err := errors.Join(installUsage(server, s.usage), installDerivedUsage(server, s.usage, bounds)); err != nil {
			return nil, fmt.Errorf("install the APIs of usage: %w", err)
		}
	}
	for _, g := range groups {
		if err := g.register(server); err != nil {
			return nil, fmt.Errorf("install %s: %w", g.versions[0].Group, err)
		}
	}
	return server, nil
}

// definitions are the schemas of all types in answers. The server keeps them as long as it runs, so
// it has only those of the library that answers may refer to: not those of pods, volumes and so on.
func definitions(reference openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	all := libraryDefinitions(reference)
	used := make(map[string]openapicommon.OpenAPIDefinition)
	var use func(name string)
	use = func(name string) {
		definition, exists := all[name]
		if _, known := used[name]; known || !exists {
			return
		}
		used[name] = definition
		for _, other := range definition.Dependencies {
			use(other)
		}
	}
	for name := range all {
		if !strings.HasPrefix(name, "io.k8s.api.") {
			use(name)
		}
	}
	return used
}

func libraryDefinitions(reference openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	all := coreopenapi.GetOpenAPIDefinitions(reference)
	maps.Copy(all, cmopenapi.GetOpenAPIDefinitions(reference))
	maps.Copy(all, emopenapi.GetOpenAPIDefinitions(reference))
	maps.Copy(all, inspectDefinitions(reference))
	maps.Copy(all, usageDefinitions(reference))
	return all
}

// effectiveVersion is the answer of /version. Clients parse it as a semantic version and adapt to
// it, so it is the Kubernetes release of the library: "v1.36.0+sluice". The part after "+" is not
// compared (semver.org, 10). The library's own value would be "v0.0.0-master+$Format:%H$", which
// kubectl rejects, with an invalid commit.
type effectiveVersion struct {
	basecompatibility.EffectiveVersion
}

// Info implements EffectiveVersion.
func (s effectiveVersion) Info() *version.Info {
	info := s.EffectiveVersion.Info()
	if info == nil {
		return nil
	}
	release := s.BinaryVersion()
	info.GitVersion = fmt.Sprintf("v%d.%d.0+sluice", release.Major(), release.Minor())
	info.GitCommit = ""
	return info
}

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
	names := catalogue{source: source, objects: known, limit: cfg.DiscoveryLimit, routed: parts.Routes.Listed}
	if parts.Policies != nil {
		names.hidden = func(name string) bool { return parts.Policies.Hidden(name, false) }
		names.routed = func() []string {
			return slices.DeleteFunc(parts.Routes.Listed(), func(name string) bool {
				return parts.Policies.Hidden(unescape(name), true)
			})
		}
	}
	var groups []group
	if cfg.CustomMetrics {
		custom := group{
			versions: []schema.GroupVersion{cmv1beta2.SchemeGroupVersion, cmv1beta1.SchemeGroupVersion},
			list:     names.custom,
			install: func(v *installer.MetricsAPIGroupVersion) {
				v.DynamicStorage = &customStorage{source: source, objects: known, vain: vain, uses: asked, rights: rights}
				v.Handlers = &installer.CMHandlers{}
				// The library adds conversions of the options to its scheme, where this codec finds
				// them.
				v.ParameterCodec = runtime.NewParameterCodec(cmserver.Scheme)
			},
		}
		groups = append(groups, custom)
		if cfg.OwnGroups {
			groups = append(groups, custom.as(valuelist.OwnCustomV1beta2, valuelist.OwnCustomV1beta1))
		}
	}
	if cfg.ExternalMetrics {
		external := group{
			versions: []schema.GroupVersion{emv1beta1.SchemeGroupVersion},
			list:     names.external,
			install: func(v *installer.MetricsAPIGroupVersion) {
				v.DynamicStorage = &externalStorage{source: source, policies: parts.Policies, vain: vain,
					uses: asked, rights: rights, routes: parts.Routes}
				v.Handlers = &installer.EMHandlers{}
				v.ParameterCodec = metav1.ParameterCodec
			},
		}
		groups = append(groups, external)
		if cfg.OwnGroups {
			groups = append(groups, external.as(valuelist.OwnExternal))
		}
	}
	if parts.Inspect != nil {
		groups = append(groups, newInspection(parts.Inspect, parts.Policies, cfg.RequestTimeout/2).group())
	}
	return groups
}

// as is the group under other names.
func (g group) as(versions ...schema.GroupVersion) group {
	g.versions = versions
	return g
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
