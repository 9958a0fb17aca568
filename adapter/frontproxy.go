package adapter

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// The ConfigMap in which a kube-apiserver publishes how it is told as a front proxy, and its keys (Kubernetes
// documentation, "Configure the Aggregation Layer").
const (
	proxyNamespace    = metav1.NamespaceSystem
	proxyConfigMap    = "extension-apiserver-authentication"
	proxyCAKey        = "requestheader-client-ca-file"
	proxyNamesKey     = "requestheader-allowed-names"
	proxyUsersKey     = "requestheader-username-headers"
	proxyUIDsKey      = "requestheader-uid-headers"
	proxyGroupsKey    = "requestheader-group-headers"
	proxyExtrasKey    = "requestheader-extra-headers-prefix"
	proxyConfigMapRef = "ConfigMap " + proxyNamespace + "/" + proxyConfigMap
)

// nobody is the only name allowed where the cluster allows any: no certificate has it, for it is not UTF-8.
const noName = "\xff"

// frontProxy is what the cluster says of its front proxy: the kube-apiserver, which passes requests on under its own
// certificate and tells in headers whose they are. The library's controllers watch it; without an API
// server nothing is known, and no header is believed.
type frontProxy struct {
	authority *dynamiccertificates.ConfigMapCAController
	headers   *headerrequest.RequestHeaderAuthRequestController
	anyName   bool
	logger    *slog.Logger
}

func newFrontProxy(client kubernetes.Interface, anyName bool, logger *slog.Logger) (*frontProxy, error) {
	authority, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"front-proxy", proxyNamespace, proxyConfigMap, proxyCAKey, client)
	if err != nil {
		return nil, fmt.Errorf("watch the front proxy's authority: %w", err)
	}
	return &frontProxy{
		authority: authority,
		headers: headerrequest.NewRequestHeaderAuthRequestController(proxyConfigMap, proxyNamespace, client,
			proxyUsersKey, proxyUIDsKey, proxyGroupsKey, proxyExtrasKey, proxyNamesKey),
		anyName: anyName,
		logger:  logger,
	}, nil
}

func (f *frontProxy) requestHeaders() *authenticatorfactory.RequestHeaderConfig {
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   caContent{f.authority},
		UsernameHeaders:     headerrequest.StringSliceProviderFunc(f.headers.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(f.headers.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(f.headers.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(f.headers.ExtraHeaderPrefixes),
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(f.allowedNames),
	}
}

// notRun hides from the TLS server that an authority can be run: run does it.
type caContent struct {
	dynamiccertificates.CAContentProvider
}

// allowedNames are the common names of the certificates that may speak for others. To the library none at all means
// any: that authority may have signed certificates for other uses, and each could be anybody here.
func (f *frontProxy) allowedNames() []string {
	names := f.headers.AllowedClientNames()
	if len(names) == 0 && !f.anyName {
		return []string{noName}
	}
	return names
}

// state says whether the front proxy can be told, and else what is missing.
func (f *frontProxy) ready() (bool, string) {
	switch {
	case len(f.authority.CurrentCABundleContent()) == 0 || len(f.headers.UsernameHeaders()) == 0:
		return false, "waiting for " + proxyConfigMapRef + " with " + proxyCAKey + " and " + proxyUsersKey +
			": is the API server reachable, its aggregation layer on, and Role extension-apiserver-authentication-reader bound to Sluice?"
	case len(f.headers.AllowedClientNames()) == 0 && !f.anyName:
		return false, proxyNamesKey + " in " + proxyConfigMapRef + " is empty, so that any certificate of that authority could speak for " +
			"anybody: set --" + proxyNamesKey + " on the kube-apiserver, or AnyProxyName here"
	}
	return true, ""
}

// run watches until ctx ends, and tells.
func (f *frontProxy) run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { f.authority.Run(ctx, 1) })
	watching.Go(func() { f.headers.Run(ctx, 1) })
	logWhileNotReady(ctx, f.logger, f.ready, f.logTrusted)
	watching.Wait()
}

// known tells who is believed from now on.
func (f *frontProxy) logTrusted() {
	names := f.headers.AllowedClientNames()
	if len(names) == 0 {
		f.logger.Warn("any certificate of the front proxy's authority may speak for anybody, as AnyProxyName allows")
		return
	}
	f.logger.Info("the cluster's front proxy is known", "names", names)
}
