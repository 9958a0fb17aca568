package adapter

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/version"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/util/compatibility"
	restclient "k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	coreopenapi "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/core"
	cmopenapi "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/custommetrics"
	emopenapi "sigs.k8s.io/custom-metrics-apiserver/pkg/generated/openapi/externalmetrics"
)

// newAPIServer builds the API server from the Kubernetes library and our groups, without etcd and
// informers. The custom metrics library's AdapterBase would require a cluster.
func (s *Server) newAPIServer(cfg Config, groups []group,
	certificate dynamiccertificates.CertKeyContentProvider) (*genericapiserver.GenericAPIServer, error) {
	c := genericapiserver.NewConfig(cmserver.Codecs)
	c.SecureServing = &genericapiserver.SecureServingInfo{Listener: s.listener, Cert: certificate}
	c.ExternalAddress = s.Addr().String()
	// The library requires a loopback configuration, although nothing uses it.
	c.LoopbackClientConfig = &restclient.Config{Host: "https://" + s.Addr().String()}
	if err := s.access.applyTo(c); err != nil {
		return nil, fmt.Errorf("apply access: %w", err)
	}
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
	hook := func(genericapiserver.PostStartHookContext) error { close(s.serving); return nil }
	if err := server.AddPostStartHook("serving", hook); err != nil {
		return nil, fmt.Errorf("prepare the API server: %w", err)
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
