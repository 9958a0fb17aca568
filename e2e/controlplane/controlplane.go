package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	"github.com/sluice-metrics/sluice/e2e/binaries"
)

// ControlPlane is a running control plane. Its methods are safe for concurrent use.
type ControlPlane struct {
	Clients          // clients of an administrator (system:masters)
	Kubelet *Kubelet // kubelet of the only node

	Kubeconfig   string // path of the administrator's kubeconfig
	CA           string // path: authority of the API server's certificate and of client certificates
	FrontProxyCA string // path: authority of the API server's client certificate for calls to aggregated servers

	cfg       Config
	folder    string
	files     credentials
	binaries  binaries.Paths
	ports     ports
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	processes []process // in the order of starting
	logs      []string  // paths
}

// Start runs a control plane and returns when it is ready. The caller must call Stop.
func Start(ctx context.Context, cfg Config) (*ControlPlane, error) {
	paths, err := binaries.Get()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "sluice-control-plane-")
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{cfg: cfg, folder: folder, binaries: paths}
	ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	for _, step := range []func(context.Context) error{
		c.prepare, c.startEtcd, c.startAPIServer, c.startControllerManager, c.startKubelet,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("control plane: %w\n%s", err, c.logTails()), c.Stop())
		}
	}
	return c, nil
}

// Stop kills the processes, the last started first, and deletes the folder.
func (c *ControlPlane) Stop() error {
	if c.Kubelet != nil {
		c.Kubelet.stop()
	}
	for i := len(c.processes) - 1; i >= 0; i-- {
		c.processes[i].Kill() // the data is deleted too, so a clean stop would save nothing
	}
	return os.RemoveAll(c.folder)
}

// prepare writes the credentials and configuration of the processes.
func (c *ControlPlane) prepare(context.Context) (err error) {
	if c.ports, err = freePorts(); err != nil {
		return err
	}
	if c.files, err = makeCredentials(filepath.Join(c.folder, "credentials"), c.ports.apiServerURL()); err != nil {
		return err
	}
	c.Kubeconfig, c.CA, c.FrontProxyCA = c.files.admin, c.files.ca, c.files.frontProxyCA
	if c.Clients, err = clientsOfKubeconfig(c.Kubeconfig); err != nil {
		return err
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Kubernetes.Discovery()))
	return nil
}

func (c *ControlPlane) startEtcd(context.Context) error {
	return c.run("etcd", c.binaries.Etcd, c.etcdFlags())
}

// startAPIServer returns when the API server and the default roles are ready. The API server waits
// for etcd itself.
func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	if err := c.run(apiServerName, c.binaries.APIServer, c.apiServerFlags()); err != nil {
		return err
	}
	return c.await(ctx, "kube-apiserver is ready", func(ctx context.Context) error {
		return c.Kubernetes.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (c *ControlPlane) startControllerManager(ctx context.Context) error {
	if err := c.run("kube-controller-manager", c.binaries.ControllerManager, c.controllerManagerFlags()); err != nil {
		return err
	}
	return c.await(ctx, "kube-controller-manager is healthy", func(ctx context.Context) error {
		return c.files.get(ctx, c.ports.controllerManagerURL()+"/healthz")
	})
}

func (c *ControlPlane) startKubelet(ctx context.Context) error {
	log := filepath.Join(c.folder, "kubelet.log")
	kubelet, err := startKubelet(ctx, c.Kubernetes, log)
	if err != nil {
		return err
	}
	c.Kubelet, c.logs = kubelet, append(c.logs, log)
	return nil
}

func (c *ControlPlane) run(name, binary string, flags []string) error {
	log := filepath.Join(c.folder, name+".log")
	p, err := startProcess(name, binary, flags, log)
	if err != nil {
		return err
	}
	c.processes, c.logs = append(c.processes, p), append(c.logs, log)
	return nil
}

// await polls until the check succeeds, the timeout passes, or a process has ended.
func (c *ControlPlane) await(ctx context.Context, what string, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if ended := c.ended(); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("timeout after %[2]s; waited until %[1]s: %[3]w (last error: %[4]w)", what, c.cfg.StartTimeout, ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
