package loadtest

import (
	"context"
	"errors"
	"os"
)

// clusterServer is a server that follows the stand-in of an API server. Tagged lines from 127.0.0.1 are believed, as
// those of a node's agent are that is a trusted forwarder; lines from a pod's own address are that pod's.
type clusterServer struct {
	*server
	standIn *standIn
}

func (m *measurement) startInCluster(ctx context.Context, pods podSet, args ...string) (_ *clusterServer, err error) {
	c := &clusterServer{}
	if c.standIn, err = startStandIn(pods); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-loadtest-")
	if err != nil {
		return nil, errors.Join(err, c.standIn.stop())
	}
	kubeconfig, err := c.standIn.writeKubeconfig(dir)
	if err != nil {
		return nil, errors.Join(err, c.standIn.stop(), os.RemoveAll(dir))
	}
	c.server, err = m.startServerIn(ctx, dir, append([]string{"--standalone=false", "--kubeconfig", kubeconfig,
		"--trusted-forwarders", "127.0.0.1", "--external-writers", "127.0.0.1"}, args...)...)
	if err != nil {
		return nil, errors.Join(err, c.standIn.stop())
	}
	return c, nil
}

func (c *clusterServer) stop() error { return errors.Join(c.server.stop(), c.standIn.stop()) }
