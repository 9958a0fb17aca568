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

// The ConfigMap in which a kube-apiserver publishes how to identify it as a front proxy, and its
// keys (Kubernetes documentation, "Configure the Aggregation Layer").
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

// noName is the only allowed name if the cluster allows any. It is not UTF-8, so no certificate has
// it.
const noName = "\xff"

// frontProxy is the cluster's front proxy: the kube-apiserver, which forwards requests under its
// own certificate and names the user in headers. The library's controllers watch its configuration.
// Without an API server it is unknown, and no header is trusted.
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

// caContent hides the authority's Run method from the TLS server; frontProxy.run calls it.
type caContent struct {
	dynamiccertificates.CAContentProvider
}

// allowedNames are the common names of certificates that may act for other users. An empty list
// means any name to the library, but that authority may have signed certificates for other uses.
func (f *frontProxy) allowedNames() []string {
	names := f.headers.AllowedClientNames()
	if len(names) == 0 && !f.anyName {
		return []string{noName}
	}
	return names
}

// ready reports whether the front proxy is known, and what is missing otherwise.
func (f *frontProxy) ready() (bool, string) {
	switch {
	case len(f.authority.CurrentCABundleContent()) == 0 || len(f.headers.UsernameHeaders()) == 0:
		return false, "waiting for " + proxyConfigMapRef + " with " + proxyCAKey + " and " + proxyUsersKey +
			": is the API server reachable, its aggregation layer on, and Role extension-apiserver-authentication-reader bound to Sluice?"
	case len(f.headers.AllowedClientNames()) == 0 && !f.anyName:
		return false, proxyNamesKey + " in " + proxyConfigMapRef +
			" is empty, so any certificate of that authority could act for " +
			"any user; must name the front proxy's certificate: set --" + proxyNamesKey +
			" of the kube-apiserver to its common name"
	}
	return true, ""
}

// run watches the configuration until ctx ends, and logs its state.
func (f *frontProxy) run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { f.authority.Run(ctx, 1) })
	watching.Go(func() { f.headers.Run(ctx, 1) })
	logWhileNotReady(ctx, f.logger, f.ready, f.logTrusted)
	watching.Wait()
}

// logTrusted logs which front proxies are trusted.
func (f *frontProxy) logTrusted() {
	names := f.headers.AllowedClientNames()
	if len(names) == 0 {
		f.logger.Warn("any certificate of the front proxy's authority may act for any user", "because",
			proxyNamesKey+" in "+proxyConfigMapRef+" is empty")
		return
	}
	f.logger.Info("the front proxy's configuration is loaded", "names", names)
}
