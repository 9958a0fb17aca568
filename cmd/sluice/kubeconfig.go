package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/sluice-metrics/sluice/durable"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigName is the file in the data folder with which kubectl and "sluice get" reach a standalone
// Sluice. caName is the adapter's certificate authority beside it.
const (
	kubeconfigName = "kubeconfig"
	caName         = "ca.crt"
)

// anyToken stands where kubectl would otherwise ask for a password. Standalone nobody looks at it.
const anyToken = "anybody"

// writeKubeconfig writes the kubeconfig for an API at this address and returns its path. Certificates that
// a caFile signed are believed; without one it is left to the machine's own authorities.
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
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"anybody": {Token: anyToken}},
		Contexts:       map[string]*clientcmdapi.Context{"sluice": {Cluster: "sluice", AuthInfo: "anybody"}},
		CurrentContext: "sluice",
	}
	path := filepath.Join(dir, kubeconfigName)
	text, err := clientcmd.Write(content)
	if err == nil {
		err = renewFile(path, text)
	}
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return path, nil
}

// keepKubeconfig writes the kubeconfig of a standalone server. On a full disk the server starts without one.
func (p *dataPath) keepKubeconfig() (err error) {
	ca := ""
	if p.cfg.api.CertFile == "" {
		ca = filepath.Join(p.cfg.store.Dir, caName)
	}
	p.kubeconfig, err = writeKubeconfig(p.cfg.store.Dir, reachable(p.api.Addr()), ca)
	if durable.IsFull(err) || ca != "" && errors.Is(err, fs.ErrNotExist) { // the adapter could not keep its certificate
		p.log.Warn("the kubeconfig was not written, \"sluice get\" and kubectl need one: make room, then restart", "error", err)
		p.kubeconfig = filepath.Join(p.cfg.store.Dir, kubeconfigName)
		return nil
	}
	return err
}

// renewFile writes a file that says something else so far, whole or not at all: on a full disk the one that is there will do.
func renewFile(path string, text []byte) error {
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, text) {
		return nil
	}
	return durable.WriteFile(path, text, 0o600)
}

// reachable is the address under which a listener is reached from this machine.
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
