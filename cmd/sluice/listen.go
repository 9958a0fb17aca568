package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// listenAddress is a setting that says where to listen.
type listenAddress struct {
	flag, address string
	example       string
	host          bool // host:port; else the path of a socket
	mayBeOff      bool // by an empty address
}

func (c *config) listenAddresses() []listenAddress {
	return []listenAddress{
		{"statsd-udp", c.statsd.udp, "127.0.0.1:8125", true, true},
		{"statsd-tcp", c.statsd.tcp, "127.0.0.1:8125", true, true},
		{"statsd-unixgram", c.statsd.unixgram, "", false, true},
		{"statsd-unix", c.statsd.unix, "", false, true},
		{"http-address", c.push.Address, "127.0.0.1:9091", true, false},
		{"api-address", c.api.Address, "127.0.0.1:6443", true, false},
		{"ops-address", c.operations.Address, "127.0.0.1:8080", true, false},
	}
}

// checkHostPort returns what is wrong with an address; empty: nothing.
func checkHostPort(address, example string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Sprintf("%q is not host:port, as in %s", address, example)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("%q has no port from 0 to 65535, as in %s", address, example)
	}
	return ""
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
	return errors.New(c.inFlags("push", err.Error()))
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
