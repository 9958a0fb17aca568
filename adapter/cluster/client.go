package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/connrotation"
)

// Requests to the API server: a handful of watches, and what delegated authentication and Events need. The bound is
// there for the day that something here goes wrong.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// dialPatience is how long a connection may take to open: an address behind which nobody is any more is given up in the
// time in which the server that took its place is wanted. keepAlive is client-go's own.
const (
	dialTimeout = 3 * time.Second
	keepAlive   = 30 * time.Second
)

const protobuf = "application/vnd.kubernetes.protobuf"

// Client is how the API server is reached.
type Client struct {
	rest       *rest.Config
	kubernetes kubernetes.Interface
	metadata   metadata.Interface
	// hangUp closes all connections; what is asked or watched over them fails at once, and is tried over others.
	closeConnections func()
}

// Connect reads how the API server is reached. It does not reach for it: a cluster whose API server is away is no error.
func Connect(cfg Config, logger *slog.Logger) (*Client, error) {
	where, err := restConfig(cfg)
	if err != nil {
		return nil, err
	}
	where.UserAgent = "sluice/" + cmp.Or(cfg.Version, "unknown")
	connections := connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext)
	where.Dial = connections.DialContext
	where.QPS, where.Burst = requestsPerSecond, requestsAtOnce

	binary := rest.CopyConfig(where)
	binary.ContentType, binary.AcceptContentTypes = protobuf, protobuf+",application/json"
	typed, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", where.Host, err)
	}
	objects, err := metadata.NewForConfig(where)
	if err != nil {
		return nil, fmt.Errorf("metadata client for %s: %w", where.Host, err)
	}
	logger.Info("cluster", "server", where.Host, "userAgent", where.UserAgent)
	return &Client{rest: where, kubernetes: typed, metadata: objects, closeConnections: connections.CloseAll}, nil
}

func restConfig(cfg Config) (*rest.Config, error) {
	if cfg.Kubeconfig != "" {
		where, err := fromKubeconfig(cfg.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("kubeconfig %s: %w", cfg.Kubeconfig, err)
		}
		return where, nil
	}
	where, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, errors.New("no cluster: no kubeconfig was given, and this is no pod of a cluster " +
			"(KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set); give the path of a kubeconfig, or serve standalone")
	case err != nil:
		return nil, fmt.Errorf("no kubeconfig was given, and the service account of this pod cannot be used "+
			"(looked in /var/run/secrets/kubernetes.io/serviceaccount): %w", err)
	}
	return where, nil
}

// fromKubeconfig reads a file. One that names no cluster is an error here: client-go would speak of an environment variable
// that it does not read, or take the cluster of the pod instead.
func fromKubeconfig(path string) (*rest.Config, error) {
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	if err := namesCluster(file); err != nil {
		return nil, err
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
}

// namesCluster returns what is missing between a kubeconfig and the address of a server.
func namesCluster(file *clientcmdapi.Config) error {
	const want = "want a kubeconfig with a current-context that names a cluster and its server, as \"kubectl config view\" shows one"
	if file.CurrentContext == "" {
		return fmt.Errorf("it has %d contexts and no current-context; %s", len(file.Contexts), want)
	}
	context := file.Contexts[file.CurrentContext]
	if context == nil {
		return fmt.Errorf("its current-context is %q, but it has no such context; %s", file.CurrentContext, want)
	}
	cluster := file.Clusters[context.Cluster]
	if cluster == nil {
		return fmt.Errorf("its current context, %q, names the cluster %q, but it has no such cluster; %s", file.CurrentContext, context.Cluster, want)
	}
	if cluster.Server == "" {
		return fmt.Errorf("its cluster %q has no server; %s", context.Cluster, want)
	}
	return nil
}

// REST returns a copy of how the API server is reached.
func (c *Client) REST() *rest.Config { return rest.CopyConfig(c.rest) }

// Kubernetes is the typed client, for delegated authentication and authorization.
func (c *Client) Kubernetes() kubernetes.Interface { return c.kubernetes }
