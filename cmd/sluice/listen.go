package main

import (
	"errors"
	"net"
	"strings"
	"syscall"

	configuration "github.com/sluice-metrics/sluice/config"
)

// listenAddress is a setting that says where to listen.
type listenAddress struct {
	flag, address string
}

func (c *config) listenAddresses() []listenAddress {
	return []listenAddress{
		{"statsd-udp", c.statsd.udp},
		{"statsd-tcp", c.statsd.tcp},
		{"statsd-unixgram", c.statsd.unixgram},
		{"statsd-unix", c.statsd.unix},
		{"http-address", c.push.Address},
		{"api-address", c.api.Address},
		{"ops-address", c.operations.Address},
	}
}

// listenFault says why a listener could not be opened, with the setting that names it. Faults that have
// nothing to do with its address stay as they are.
func (c *config) listenFault(flag string, err error) error {
	var errno syscall.Errno
	var lookup *net.DNSError
	what := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		what = " is in use (is another sluice running?)"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		what = " is no address of this machine"
	case errors.Is(err, syscall.EACCES):
		what = " is not allowed: permission denied"
	case errors.As(err, &lookup):
		what = ": unknown host " + lookup.Name
	case errors.As(err, &errno):
		what = ": " + errno.Error()
	default:
		return err
	}
	for _, listener := range c.listenAddresses() {
		if listener.flag == flag {
			var setting *settingFault
			errors.As(c.fault(flag, ""), &setting)
			return &listenError{setting.written + " " + listener.address + what, err}
		}
	}
	return err
}

// listenError is err in other words.
type listenError struct {
	text string
	err  error
}

func (l *listenError) Error() string { return l.text }
func (l *listenError) Unwrap() error { return l.err }

// pushFault is listenFault for HTTP push, which reads files, too.
func (c *config) pushFault(err error) error {
	var network *net.OpError
	if err == nil || errors.As(err, &network) {
		return c.listenFault("http-address", err)
	}
	var fault *configuration.Fault
	if errors.As(err, &fault) {
		if flag := c.flagOf("push", fault.Field); flag != "" {
			return c.fault(flag, "%s", fault.Text(c.namer("push")))
		}
	}
	return err
}

// statsdFault is listenFault for the receiver, which opens several and names the one that failed.
func (c *config) statsdFault(err error) error {
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
