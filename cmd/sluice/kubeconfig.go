package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-metrics/sluice/cmd/sluice/client"
	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/store"
	"golang.org/x/sys/unix"
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
		p.log.Warn("the kubeconfig was not written, and \"sluice get\" and kubectl need it: free disk space, then restart",
			"error", err)
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

// checkDataFolder finds faults of the data folder before any port is opened: a second server that
// is started by mistake then reports the folder in use, not a port. It changes nothing, and the
// store checks again.
func (p *dataPath) checkDataFolder(context.Context) error {
	dir, err := filepath.Abs(p.cfg.store.Dir)
	if err != nil {
		return p.folderFault(err)
	}
	if err := store.CheckFolder(dir); err != nil {
		return p.folderFault(err)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil &&
		!errors.Is(err, fs.ErrNotExist) { // the store creates a missing folder
		return p.folderFault(fmt.Errorf("cannot be written to: %w", err))
	}
	return nil
}

func (p *dataPath) folderFault(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s %s: %w", p.cfg.as("data-dir"), p.cfg.store.Dir, err)
}

// storeFault names the setting if the store could not use its folder.
func (p *dataPath) storeFault(err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) {
		return err
	}
	return fmt.Errorf("%s %s: %s", p.cfg.as("data-dir"), p.cfg.store.Dir, strings.TrimPrefix(err.Error(), "store: "))
}

// checkCertificate finds faults of the serving certificate before any port is opened. The adapter
// reads the file again.
func (p *dataPath) checkCertificate(context.Context) error {
	file, key := p.cfg.api.CertFile, p.cfg.api.KeyFile
	if file == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(file, key); err != nil {
		return p.cfg.fault("api-cert-file", "%s, %s %s: %v; must be a certificate and its key, in PEM",
			file, p.cfg.as("api-key-file"), key, err)
	}
	return nil
}
