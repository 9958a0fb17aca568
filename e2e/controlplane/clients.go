package controlplane

import (
	"context"
	"fmt"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Clients are one user's clients of the API server.
type Clients struct {
	REST       *rest.Config
	Kubernetes kubernetes.Interface
	Dynamic    dynamic.Interface
}

func clientsOfKubeconfig(path string) (Clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return Clients{}, err
	}
	config.QPS = -1 // no client-side rate limit
	return clientsOf(config)
}

func clientsOf(config *rest.Config) (c Clients, err error) {
	c.REST = config
	if c.Kubernetes, err = kubernetes.NewForConfig(config); err != nil {
		return c, err
	}
	c.Dynamic, err = dynamic.NewForConfig(config)
	return c, err
}

// As returns the clients of another user, whom the administrator impersonates.
func (c *ControlPlane) As(t *testing.T, user string, groups ...string) Clients {
	t.Helper()
	config := rest.CopyConfig(c.REST)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	clients, err := clientsOf(config)
	must(t, err)
	return clients
}

// Get reads a path of the API as it is written. The error is the API's message.
func (c Clients) Get(ctx context.Context, path string) ([]byte, error) {
	result := c.Kubernetes.CoreV1().RESTClient().Get().RequestURI(path).Do(ctx)
	body, err := result.Raw()
	if err != nil {
		err = result.Error() // holds the message from the body
	}
	return body, err
}

// ServiceAccountKubeconfig returns the path of a kubeconfig with a token of a service account. The
// token has only the rights of the service account's roles.
func (c *ControlPlane) ServiceAccountKubeconfig(t *testing.T, namespace, name string) string {
	t.Helper()
	path, err := c.files.kubeconfig(fmt.Sprintf("%s.%s", namespace, name), namespace, &clientcmdapi.AuthInfo{Token: c.Token(t, namespace, name)})
	must(t, err)
	return path
}

// Token returns a token of a service account, valid at the API server for an hour.
func (c *ControlPlane) Token(t *testing.T, namespace, serviceAccount string) string {
	t.Helper()
	request, err := c.Kubernetes.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), serviceAccount, &authentication.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	return request.Status.Token
}
