package loadtest

import (
	"context"
	"errors"
	"os"
)

// clusterServer is a server that watches the fake API server. It trusts tagged lines from
// 127.0.0.1, as those of a node's forwarder. Lines from a pod's address belong to that pod.
type clusterServer struct {
	*server
	fakeAPIServer *fakeAPIServer
}

func (m *measurement) startInCluster(ctx context.Context, pods podSet, args ...string) (_ *clusterServer, err error) {
	c := &clusterServer{}
	if c.fakeAPIServer, err = startStandIn(pods); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-loadtest-")
	if err != nil {
		return nil, errors.Join(err, c.fakeAPIServer.stop())
	}
	kubeconfig, err := c.fakeAPIServer.writeKubeconfig(dir)
	if err != nil {
		return nil, errors.Join(err, c.fakeAPIServer.stop(), os.RemoveAll(dir))
	}
	c.server, err = m.startServerIn(ctx, dir, append([]string{"--standalone=false", "--kubeconfig", kubeconfig,
		"--trusted-forwarders", "127.0.0.1", "--external-writers", "127.0.0.1"}, args...)...)
	if err != nil {
		return nil, errors.Join(err, c.fakeAPIServer.stop())
	}
	return c, nil
}

func (c *clusterServer) stop() error { return errors.Join(c.server.stop(), c.fakeAPIServer.stop()) }
