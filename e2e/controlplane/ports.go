package controlplane

import (
	"net"

	"github.com/sluice-metrics/sluice/e2e/loopback"
)

// ports are the addresses (host:port) of the listeners.
type ports struct {
	etcd, etcdPeers, apiServer, controllerManager string
}

func (p ports) apiServerURL() string         { return "https://" + p.apiServer }
func (p ports) controllerManagerURL() string { return "https://" + p.controllerManager }

// freePorts returns ports that are all different.
func freePorts() (p ports, err error) {
	for _, port := range []*string{&p.etcd, &p.etcdPeers, &p.apiServer, &p.controllerManager} {
		if *port, err = loopback.Free("tcp"); err != nil {
			return ports{}, err
		}
	}
	return p, nil
}

func splitPort(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // impossible: package net formatted the address
	}
	return host, port
}
