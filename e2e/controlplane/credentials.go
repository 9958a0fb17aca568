package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/sluice-metrics/sluice/e2e/certificate"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// frontProxyName is the name in the front proxy's client certificate. Aggregated servers trust the
// user that this client names in request headers.
const frontProxyName = "front-proxy-client"

// credentials are the paths of certificates and kubeconfigs.
type credentials struct {
	folder, server string

	ca, frontProxyCA         string
	serving, frontProxy      certificate.Pair
	admin, controllerManager string // kubeconfigs
	serviceAccounts          struct{ public, key string }
}

func makeCredentials(folder, server string) (credentials, error) {
	c := credentials{folder: folder, server: server}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return c, err
	}
	ca, err := certificate.New(folder, "ca")
	if err != nil {
		return c, err
	}
	frontProxyCA, err := certificate.New(folder, "front-proxy-ca")
	if err != nil {
		return c, err
	}
	c.ca, c.frontProxyCA = ca.Path, frontProxyCA.Path
	var faults [5]error
	c.serving, faults[0] = forServer(ca, "serving")
	c.frontProxy, faults[1] = forClient(frontProxyCA, "front-proxy", frontProxyName)
	c.admin, faults[2] = c.userKubeconfig(ca, "admin", "system:masters")
	c.controllerManager, faults[3] = c.userKubeconfig(ca, "system:kube-controller-manager")
	faults[4] = c.makeServiceAccountKey()
	return c, errors.Join(faults[:]...)
}

func (c *credentials) makeServiceAccountKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if c.serviceAccounts.key, err = certificate.WriteKey(c.folder, "service-accounts.key", key); err != nil {
		return err
	}
	c.serviceAccounts.public, err = certificate.WritePEM(c.folder, "service-accounts.pub", "PUBLIC KEY", public)
	return err
}

// userKubeconfig issues a client certificate and writes a kubeconfig with that certificate.
func (c *credentials) userKubeconfig(ca *certificate.Authority, user string, groups ...string) (string, error) {
	name := filepath.Base(user)
	p, err := forClient(ca, name, user, groups...)
	if err != nil {
		return "", err
	}
	return c.kubeconfig(name, "", &clientcmdapi.AuthInfo{ClientCertificate: p.Certificate, ClientKey: p.Key})
}

// kubeconfig writes a kubeconfig for the API server and returns the path. namespace is that of the
// user; empty: none.
func (c *credentials) kubeconfig(name, namespace string, user *clientcmdapi.AuthInfo) (string, error) {
	const cluster = "e2e"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: c.server, CertificateAuthority: c.ca}
	config.AuthInfos[name] = user
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = cluster
	path := filepath.Join(c.folder, name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// get sends a GET to a server whose certificate the authority signed. A status other than 200 is an
// error.
func (c *credentials) get(ctx context.Context, url string) error {
	pem, err := os.ReadFile(c.ca)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}
