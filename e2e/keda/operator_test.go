package keda

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/binaries"
	"github.com/sluice-metrics/sluice/e2e/certificate"
	"github.com/sluice-metrics/sluice/e2e/child"
	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// cluster is a control plane with KEDA.
type cluster struct {
	*controlplane.ControlPlane
	operator, adapter *child.Process
	folder            string
	adapterPort       string
	adapterCommand    []string
}

var running struct {
	sync.Mutex
	asked bool
	*cluster
	err error
}

// shared returns the cluster of all tests. The first call starts it.
func shared(t *testing.T) *cluster {
	t.Helper()
	running.Lock()
	defer running.Unlock()
	binaries, err := binaries.CachedKEDA(t.Context())
	if err != nil {
		t.Skip(err)
	}
	plane := controlplane.Shared(t)
	if !running.asked {
		running.asked = true
		running.err = errors.New("KEDA did not start; an earlier test says why")
		running.cluster, running.err = install(t, plane, binaries)
	}
	if running.err != nil {
		t.Fatal(running.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintf(os.Stderr, "%s: the operator's log ends with\n%s", t.Name(), running.tail("operator", 40))
		}
	})
	return running.cluster
}

// installed returns KEDA in a control plane of the test's own.
func installed(t *testing.T, cfg controlplane.Config) *cluster {
	t.Helper()
	binaries, err := binaries.CachedKEDA(t.Context())
	if err != nil {
		t.Skip(err)
	}
	c, err := install(t, controlplane.New(t, cfg), binaries)
	if c != nil {
		t.Cleanup(c.stop)
	}
	must(t, err)
	return c
}

func stopShared() {
	if running.cluster != nil {
		running.stop()
	}
}

func (c *cluster) stop() {
	for _, p := range []*child.Process{c.adapter, c.operator} {
		if p != nil {
			p.Kill()
		}
	}
	_ = os.RemoveAll(c.folder)
}

// install starts the operator and the adapter with an administrator's rights.
func install(t *testing.T, plane *controlplane.ControlPlane, paths binaries.KEDA) (*cluster, error) {
	folder, err := os.MkdirTemp("", "sluice-keda-")
	if err != nil {
		return nil, err
	}
	c := &cluster{ControlPlane: plane, folder: folder}
	plane.Apply(t, "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: keda}\n")
	for _, path := range paths.Definitions {
		definition, err := os.ReadFile(path)
		if err != nil {
			return c, err
		}
		plane.Apply(t, "", string(definition))
	}
	server.Within(t, func() string {
		if _, err := plane.TryKubectl(t, "get", "scaledobjects,triggerauthentications", "-A"); err != nil {
			return err.Error()
		}
		return ""
	})
	certificates, err := kedaCertificates(folder)
	if err != nil {
		return c, err
	}
	metrics, err := c.startOperator(t, paths.Operator, certificates)
	if err != nil {
		return c, err
	}
	return c, c.startAdapter(t, paths.Adapter, certificates, metrics)
}

// kedaCertificates makes the folder of certificates that operator and adapter share: each is client
// and server.
func kedaCertificates(folder string) (string, error) {
	folder = filepath.Join(folder, "certificates")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	authority, err := certificate.New(folder, "ca")
	if err != nil {
		return "", err
	}
	_, err = authority.Issue("tls", &x509.Certificate{
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return folder, err
}

// startOperator returns the address at which the adapter gets metrics.
func (c *cluster) startOperator(t *testing.T, binary, certificates string) (metrics string, err error) {
	health, metrics := server.FreeAddress(t, "tcp"), server.FreeAddress(t, "tcp")
	c.operator, err = c.run("operator", binary, "--kubeconfig", c.Kubeconfig, "--metrics-bind-address=0",
		"--health-probe-bind-address="+health, "--metrics-service-bind-address="+metrics, "--cert-dir="+certificates)
	if err != nil {
		return "", err
	}
	for deadline := time.Now().Add(server.Patience); ; time.Sleep(50 * time.Millisecond) {
		if resp, err := http.Get("http://" + health + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return metrics, nil
			}
		}
		select {
		case <-c.operator.Done():
			return "", fmt.Errorf("KEDA's operator ended: %w\n%s", c.operator.Err(), c.tail("operator", 40))
		default:
		}
		if time.Now().After(deadline) {
			return "", errors.New("KEDA's operator is not ready\n" + c.tail("operator", 40))
		}
	}
}

// startAdapter registers the adapter as the server of external metrics.
func (c *cluster) startAdapter(t *testing.T, binary, certificates, metrics string) (err error) {
	if _, c.adapterPort, err = net.SplitHostPort(server.FreeAddress(t, "tcp")); err != nil {
		return err
	}
	_, metricsPort, err := net.SplitHostPort(metrics)
	if err != nil {
		return err
	}
	c.adapterCommand = []string{binary, "--kubeconfig=" + c.Kubeconfig, "--lister-kubeconfig=" + c.Kubeconfig,
		"--authentication-kubeconfig=" + c.Kubeconfig, "--authorization-kubeconfig=" + c.Kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + c.adapterPort, "--port=0", "--cert-dir=" + certificates,
		"--tls-cert-file=" + filepath.Join(certificates, "tls.crt"), "--tls-private-key-file=" + filepath.Join(certificates, "tls.key"),
		"--metrics-service-address=localhost:" + metricsPort}
	if err := c.runAdapter(); err != nil {
		return err
	}
	c.Apply(t, "keda", `
apiVersion: v1
kind: Service
metadata: {name: keda-operator-metrics-apiserver}
spec: {type: ExternalName, externalName: localhost}
`, controlplane.APIService("v1beta1.external.metrics.k8s.io", "keda", "keda-operator-metrics-apiserver", c.adapterPort))
	if out, err := c.TryKubectl(t, "wait", "--for=condition=Available", "--timeout=5m", "apiservice/v1beta1.external.metrics.k8s.io"); err != nil {
		return fmt.Errorf("%s: %w\n%s", out, err, c.tail("adapter", 40))
	}
	return nil
}

// runAdapter starts the adapter's process, which may have ended.
func (c *cluster) runAdapter() (err error) {
	c.adapter, err = c.run("adapter", c.adapterCommand[0], c.adapterCommand[1:]...)
	return err
}

func (c *cluster) run(name, binary string, flags ...string) (*child.Process, error) {
	log, err := os.Create(c.log(name))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has a descriptor of its own
	cmd := exec.Command(binary, flags...)
	cmd.Env = append(os.Environ(), "POD_NAMESPACE=keda", "KEDA_CLUSTER_OBJECT_NAMESPACE=keda", "WATCH_NAMESPACE=", "KUBECONFIG="+c.Kubeconfig)
	cmd.Stdout, cmd.Stderr = log, log
	return child.Start(cmd)
}

func (c *cluster) log(name string) string { return filepath.Join(c.folder, name+".log") }

func (c *cluster) tail(name string, lines int) string {
	content, err := os.ReadFile(c.log(name))
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(content), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
