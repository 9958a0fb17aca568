package explain

import (
	"net"
	"strings"
)

// Service is a Service of the cluster, and a port of it.
type Service struct{ Namespace, Name, Port string }

// ServiceOf is the Service that scalerAddress names, as in dns:///sluice-keda.sluice.svc:9095; false:
// it names none.
func ServiceOf(address string) (Service, bool) {
	if scheme, rest, is := strings.Cut(address, "://"); is {
		_, target, hasTarget := strings.Cut(rest, "/")
		if scheme != "dns" && scheme != "passthrough" || !hasTarget {
			return Service{}, false
		}
		address = target
	}
	host, port, err := net.SplitHostPort(address)
	parts := strings.Split(host, ".")
	if err != nil || net.ParseIP(host) != nil || len(parts) < 2 || len(parts) > 2 && parts[2] != "svc" {
		return Service{}, false
	}
	return Service{Namespace: parts[1], Name: parts[0], Port: port}, true
}
