package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/sluice-metrics/sluice/cmd/sluice/client"
	"github.com/sluice-metrics/sluice/internal/durable"
	"k8s.io/client-go/tools/clientcmd"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// caName is the file in the data folder with the adapter's certificate authority.
const caName = "ca.crt"

// writeKubeconfig writes the kubeconfig for an API at this address and returns its path. Clients
// trust the authority in caFile; if it is empty, those of the system.
func writeKubeconfig(dir, address, caFile string) (string, error) {
	cluster := &clientcmdapi.Cluster{Server: "https://" + address}
	if caFile != "" {
		ca, err := os.ReadFile(caFile)
		if err != nil {
			return "", fmt.Errorf("kubeconfig: %w", err)
		}
		cluster.CertificateAuthorityData = ca
	}
	content := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"sluice": cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"anybody": {Token: client.AnyToken}},
		Contexts:       map[string]*clientcmdapi.Context{"sluice": {Cluster: "sluice", AuthInfo: "anybody"}},
		CurrentContext: "sluice",
	}
	path := filepath.Join(dir, client.KubeconfigName)
	text, err := clientcmd.Write(content)
	if err == nil {
		err = renewFile(path, text)
	}
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return path, nil
}

// keepKubeconfig writes the kubeconfig of a standalone server. On a full disk the server starts
// without it.
func (p *dataPath) keepKubeconfig() (err error) {
	ca := ""
	if p.cfg.api.CertFile == "" {
		ca = filepath.Join(p.cfg.store.Dir, caName)
	}
	p.kubeconfig, err = writeKubeconfig(p.cfg.store.Dir, reachable(p.api.Addr()), ca)
	if durable.IsFull(err) || ca != "" && errors.Is(err, fs.ErrNotExist) { // the adapter could not keep its certificate
		p.log.Warn("the kubeconfig was not written, and \"sluice get\" and kubectl need it: free disk space, then restart", "error", err)
		p.kubeconfig = filepath.Join(p.cfg.store.Dir, client.KubeconfigName)
		return nil
	}
	return err
}

// renewFile writes a file, unless it already has this content: on a full disk the present one
// serves.
func renewFile(path string, text []byte) error {
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, text) {
		return nil
	}
	return durable.WriteFile(path, text, 0o600)
}

// reachable is the address of a listener for clients on this machine.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
