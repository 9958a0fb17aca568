package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/connrotation"
)

// Rate limit of requests to the API server. The view needs a few watches, delegated authentication
// and Events; the limit only protects the server from a bug.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// dialTimeout bounds opening a connection. It is short, so an address that nobody has any more is
// given up before its successor is needed. keepAlive is client-go's.
const (
	dialTimeout = 3 * time.Second
	keepAlive   = 30 * time.Second
)

const protobuf = "application/vnd.kubernetes.protobuf"

// Client connects to the API server.
type Client struct {
	rest       *rest.Config
	kubernetes kubernetes.Interface
	metadata   metadata.Interface
	dynamic    dynamic.Interface // custom resources
	// namespace is that of the pod of this process, or of the kubeconfig's context.
	namespace string
	// closeConnections closes all connections. Requests and watches on them fail at once and are
	// retried on new ones.
	closeConnections func()
}

// Connect reads the configuration of the API server. It does not connect yet: an unreachable API
// server is not an error.
func Connect(cfg Config, logger *slog.Logger) (*Client, error) {
	where, namespace, err := restConfig(cfg)
	if err != nil {
		return nil, err
	}
	where.UserAgent = "sluice/" + cmp.Or(cfg.Version, "unknown")
	connections := connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext)
	where.Dial = connections.DialContext
	where.QPS, where.Burst = requestsPerSecond, requestsAtOnce

	paged := rest.CopyConfig(where)
	paged.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundPages{next} })
	binary := rest.CopyConfig(paged)
	binary.ContentType, binary.AcceptContentTypes = protobuf, protobuf+",application/json"
	server := metric.Mask(where.Host) // a kubeconfig's URL may have a password
	typed, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", server, err)
	}
	objects, err := metadata.NewForConfig(paged)
	if err != nil {
		return nil, fmt.Errorf("make a metadata client for %s: %w", server, err)
	}
	custom, err := dynamic.NewForConfig(paged)
	if err != nil {
		return nil, fmt.Errorf("make a client of custom resources for %s: %w", server, err)
	}
	logger.Info("cluster", "server", server, "userAgent", where.UserAgent)
	return &Client{rest: where, kubernetes: typed, metadata: objects, dynamic: custom, namespace: namespace,
		closeConnections: connections.CloseAll}, nil
}

// Loopback reports whether the API server is reached over loopback: pods may have such addresses, too, then.
func (c *Client) Loopback() bool {
	where, err := url.Parse(c.rest.Host)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(where.Hostname())
	return err == nil && address.IsLoopback()
}

// restConfig returns the configuration of the API server, and the own namespace.
func restConfig(cfg Config) (*rest.Config, string, error) {
	if cfg.Kubeconfig != "" {
		where, namespace, err := fromKubeconfig(cfg.Kubeconfig)
		if err != nil {
			return nil, "", fmt.Errorf("kubeconfig %s: %w", cfg.Kubeconfig, err)
		}
		return where, namespace, nil
	}
	where, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, "", errors.New("no cluster found: no kubeconfig is set, and this process does not run in a pod " +
			"(KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set); set the path of a kubeconfig, or serve standalone")
	case err != nil:
		return nil, "", fmt.Errorf("no kubeconfig is set, and the service account of this pod cannot be used "+
			"(looked in /var/run/secrets/kubernetes.io/serviceaccount): %w", err)
	}
	return where, podNamespace(), nil
}

// fromKubeconfig reads a kubeconfig. A file that names no cluster is an error: client-go would
// blame an environment variable that it does not read, or use the cluster of the pod instead.
func fromKubeconfig(path string) (*rest.Config, string, error) {
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, "", err
	}
	if err := namesCluster(file); err != nil {
		return nil, "", err
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, "", err
	}
	chosen := clientcmd.NewDefaultClientConfig(*file, nil)
	namespace, _, err := chosen.Namespace()
	if err != nil {
		return nil, "", err
	}
	where, err := chosen.ClientConfig()
	return where, namespace, err
}

// namesCluster returns the first gap between a kubeconfig's current-context and the address of a
// server.
func namesCluster(file *clientcmdapi.Config) error {
	const want = "must have a current-context that names a cluster and its server (see \"kubectl config view\")"
	if file.CurrentContext == "" {
		return fmt.Errorf("the file has %d contexts and no current-context; %s", len(file.Contexts), want)
	}
	context := file.Contexts[file.CurrentContext]
	if context == nil {
		return fmt.Errorf("the current-context %q is not among the contexts; %s", file.CurrentContext, want)
	}
	cluster := file.Clusters[context.Cluster]
	if cluster == nil {
		return fmt.Errorf("the current-context %q names the cluster %q, which is not among the clusters; %s",
			file.CurrentContext, context.Cluster, want)
	}
	if cluster.Server == "" {
		return fmt.Errorf("the cluster %q has no server; %s", context.Cluster, want)
	}
	return nil
}

// REST returns a copy of the client configuration.
func (c *Client) REST() *rest.Config { return rest.CopyConfig(c.rest) }
