package controlplane

import "net"

// ports are host:port of what listens.
type ports struct {
	etcd, etcdPeers, apiServer, controllerManager string
}

func (p ports) apiServerURL() string         { return "https://" + p.apiServer }
func (p ports) controllerManagerURL() string { return "https://" + p.controllerManager }

// freePorts asks the system for ports and gives them back, all at the end, so that they differ. Somebody else
// may take one before its owner does; the system hands ports out in turn, so that is unlikely.
func freePorts() (ports, error) {
	var p ports
	for _, port := range []*string{&p.etcd, &p.etcdPeers, &p.apiServer, &p.controllerManager} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, err
		}
		defer listener.Close()
		*port = listener.Addr().String()
	}
	return p, nil
}

func splitPort(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // it is an address that net made
	}
	return host, port
}
