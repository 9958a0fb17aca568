package main

import (
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/sluice-metrics/sluice/receiver/push"
)

// listenAddress is a setting that names an address to listen on.
type listenAddress struct {
	setting, network, address string
}

func (c *serverConfig) listenAddresses() []listenAddress {
	return []listenAddress{
		{"statsd-udp", "udp", c.statsd.udp},
		{"statsd-tcp", "tcp", c.statsd.tcp},
		{"statsd-unixgram", "unixgram", c.statsd.unixgram},
		{"statsd-unix", "unix", c.statsd.unix},
		{"http-address", "tcp", c.push.Address},
		{"otlp-http-address", "tcp", c.push.OTLPAddress},
		{"otlp-grpc-address", "tcp", c.push.OTLPGRPCAddress},
		{"api-address", "tcp", c.api.Address},
		{"ops-address", "tcp", c.operations.Address},
		{"console-address", "tcp", c.console.Address},
		{"replica-listen", "tcp", c.natsbus.ListenAddress()},
		{"agents-address", "tcp", c.agents.Address},
		{"keda-address", "tcp", c.keda.Address},
	}
}

// listenError says which setting's address could not be listened on.
type listenError struct {
	setting string
	text    string
	err     error
}

func (l *listenError) Error() string { return l.text }
func (l *listenError) Unwrap() error { return l.err }

// listenFault says why a listener could not be opened, and which setting names its address. An
// error that is not about the address is returned as it is.
func (c *serverConfig) listenFault(setting string, err error) error {
	var errno syscall.Errno
	var lookup *net.DNSError
	reason := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		reason = " is in use (is another sluice running?)"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		reason = " is no address of this machine"
	case errors.Is(err, syscall.EACCES):
		reason = " is not allowed: permission denied"
	case errors.As(err, &lookup):
		reason = ": unknown host " + lookup.Name
	case errors.As(err, &errno):
		reason = ": " + errno.Error()
	default:
		return err
	}
	for _, listener := range c.listenAddresses() {
		if listener.setting == setting {
			return &listenError{setting, c.as(setting) + " " + listener.address + reason, err}
		}
	}
	return err
}

// portFault is listenFault for a port that also reads files.
func (c *serverConfig) portFault(setting string, port validator, err error) error {
	var network *net.OpError
	if err == nil || errors.As(err, &network) {
		return c.listenFault(setting, err)
	}
	worded, _ := c.word(port, err)
	return worded
}

// pushFault is portFault for HTTP push.
func (c *serverConfig) pushFault(err error) error {
	setting := "http-address"
	switch {
	case errors.Is(err, push.ErrOTLPAddress):
		setting = "otlp-http-address"
	case errors.Is(err, push.ErrOTLPGRPCAddress):
		setting = "otlp-grpc-address"
	}
	return c.portFault(setting, &c.push, err)
}

// statsdFault is listenFault for the receiver, which opens several sockets.
func (c *serverConfig) statsdFault(err error) error {
	if err == nil {
		return nil
	}
	for _, listener := range c.receiver.Listeners {
		if strings.Contains(err.Error(), listener.String()) {
			return c.listenFault("statsd-"+listener.Network, err)
		}
	}
	return err
}

// otherBusyPorts lists, after a start that failed because a port is in use, the other ports in use.
// It probes them by listening; every socket of the failed start must be closed. Unix sockets are
// left out: probing would create their files.
func (c *serverConfig) otherBusyPorts(failed error) (busy []error) {
	var first *listenError
	if !errors.As(failed, &first) || !errors.Is(first, syscall.EADDRINUSE) {
		return nil
	}
	for _, listener := range c.listenAddresses() {
		if listener.setting == first.setting || listener.address == "" {
			continue
		}
		if err := probe(listener.network, listener.address); errors.Is(err, syscall.EADDRINUSE) {
			busy = append(busy, c.listenFault(listener.setting, err))
		}
	}
	return busy
}

// probe listens for a moment.
func probe(network, address string) error {
	switch network {
	case "udp":
		conn, err := net.ListenPacket(network, address)
		if err != nil {
			return err
		}
		return conn.Close()
	case "tcp":
		listener, err := net.Listen(network, address)
		if err != nil {
			return err
		}
		return listener.Close()
	}
	return nil
}
