package receiver

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// Config says where to listen, and bounds what a client may send.
type Config struct {
	Listeners []Listener
	// MaxLine bounds a line, MaxTags the tags in it, on every listener.
	MaxLine int
	MaxTags int
	// MaxPacket bounds the length that a packet on a Unix stream may announce, in bytes.
	MaxPacket int
	// MaxConnections bounds the open connections of each stream listener. Beyond it, the connection
	// idle for longest is closed for the new one; if none is idle, the new one is closed.
	MaxConnections int
	// MaxConnectionsPerAddress bounds in the same way the connections from one address, so that one
	// noisy client does not use up MaxConnections.
	MaxConnectionsPerAddress int
	// HTTPAddress is the address of HTTP push, for clients that speak HTTP to a TCP listener; empty:
	// it is off.
	HTTPAddress string
	// IdleTimeout closes a connection that has sent nothing for this long; 0: never.
	IdleTimeout time.Duration
	// DrainTimeout bounds how long a stopping server reads what had already arrived.
	DrainTimeout time.Duration
	// Pending bounds the samples that are held until their sender is known.
	Pending pending.Config
}

// Listener is one address that receives StatsD.
type Listener struct {
	// Network is "udp", "tcp" (lines), "unixgram" or "unix". A "unix" stream carries either lines
	// or DogStatsD packets, each behind its length as four bytes, little-endian; its first four
	// bytes decide which.
	Network string
	// Address is host:port, or the path of a socket file.
	Address string
	Dialect statsd.Dialect
	// Sockets is the number of UDP sockets that share the address, each with its own buffer and
	// goroutine; 0: one per processor, at most 4.
	Sockets int
	// About is the object of lines that name none: "" is the pod that sent them, "external" is no
	// object, as for batch machines that report on something else.
	About string
	// ReadBuffer is the kernel's buffer of each socket, in bytes; 0: the system's default.
	ReadBuffer int
	// TakesOver makes a Unix socket replace one on which another process listens; that process keeps its
	// clients. False: such a socket is an error.
	TakesOver bool
}

// AboutExternal is the one value of Listener.About that is not empty.
const AboutExternal = "external"

const (
	maxSockets    = 64
	maxPacketSize = 1 << 20
	maxReadBuffer = 1 << 30
	maxUnixPath   = 107 // sun_path, less its NUL
)

// DefaultConfig listens on port 8125 of loopback, UDP and TCP.
func DefaultConfig() Config {
	limits := statsd.DefaultOptions()
	return Config{
		Listeners: []Listener{
			{Network: "udp", Address: "127.0.0.1:8125", ReadBuffer: 4 << 20},
			{Network: "tcp", Address: "127.0.0.1:8125"},
		},
		MaxLine:        limits.MaxLine,
		MaxTags:        limits.MaxTags,
		MaxPacket:      64 << 10,
		MaxConnections: 1024,

		MaxConnectionsPerAddress: 256,
		IdleTimeout:              10 * time.Minute,
		DrainTimeout:             time.Second,
		Pending:                  pending.DefaultConfig(),
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	faults.AddNested("", c.options(statsd.StatsD).Validate())
	faults.AddNested("Pending.", c.Pending.Validate())
	seen := map[string]int{}
	for i, l := range c.Listeners {
		path := config.Field(fmt.Sprintf("Listeners[%d].", i))
		faults.AddNested(path, l.validate())
		key := l.Network + " " + l.Address
		if first, twice := seen[key]; twice && !l.anyPort() {
			faults.Add(path+"Address", "is %q, which is also %s", l.Address,
				config.Field(fmt.Sprintf("Listeners[%d].Address", first)))
		}
		seen[key] = i
	}
	if c.MaxPacket < c.MaxLine || c.MaxPacket > maxPacketSize {
		faults.Add("MaxPacket", "is %d; must be from %s to %d", c.MaxPacket, config.Field("MaxLine"), maxPacketSize)
	}
	if c.MaxConnectionsPerAddress < 1 {
		faults.Add("MaxConnectionsPerAddress", "is %d; must be at least 1", c.MaxConnectionsPerAddress)
	}
	if c.MaxConnections < 1 {
		faults.Add("MaxConnections", "is %d; must be at least 1", c.MaxConnections)
	}
	if c.IdleTimeout < 0 {
		faults.Add("IdleTimeout", "is %v; must be 0 (never) or more", c.IdleTimeout)
	}
	if c.DrainTimeout < 0 {
		faults.Add("DrainTimeout", "is %v; must be 0 or more", c.DrainTimeout)
	}
	return faults.Join()
}

func (c Config) options(d statsd.Dialect) statsd.Options {
	return statsd.Options{Dialect: d, MaxLine: c.MaxLine, MaxTags: c.MaxTags}
}

func (l Listener) validate() error {
	var faults config.Faults
	switch l.Network {
	case "udp", "tcp":
		faults.AddUnlessHostPort("Address", l.Address, DefaultConfig().Listeners[0].Address)
	case "unixgram", "unix":
		if n := len(l.Address); n == 0 || n > maxUnixPath {
			faults.Add("Address", "is %q; must be a path of 1 to %d bytes", l.Address, maxUnixPath)
		}
	default:
		faults.Add("Network", "is %q; must be udp, tcp, unixgram or unix", l.Network)
	}
	dialects := []statsd.Dialect{statsd.StatsD, statsd.DogStatsD, statsd.Influx, statsd.Librato, statsd.SignalFx}
	if !slices.Contains(dialects, l.Dialect) {
		faults.Add("Dialect", "is %d; must be one of %v", l.Dialect, dialects)
	}
	if l.About != "" && l.About != AboutExternal {
		faults.Add("About", "is %q; must be %q or empty", l.About, AboutExternal)
	}
	switch {
	case l.Sockets < 0 || l.Sockets > maxSockets:
		faults.Add("Sockets", "is %d; must be from 0 to %d", l.Sockets, maxSockets)
	case l.Sockets > 1 && l.Network != "udp":
		faults.Add("Sockets", "is %d; must be 0 or 1, except for udp", l.Sockets)
	}
	if l.ReadBuffer < 0 || l.ReadBuffer > maxReadBuffer {
		faults.Add("ReadBuffer", "is %d; must be from 0 to %d (1GiB)", l.ReadBuffer, maxReadBuffer)
	}
	return faults.Join()
}

// anyPort reports whether the system picks the port, so that two listeners may have the address.
func (l Listener) anyPort() bool {
	_, port, err := net.SplitHostPort(l.Address)
	return err == nil && port == "0"
}

func (l Listener) sockets() int {
	if l.Network != "udp" {
		return 1
	}
	if l.Sockets == 0 {
		return min(runtime.GOMAXPROCS(0), 4)
	}
	return l.Sockets
}

// receiver is the name of the listener's account in the ledger.
func (l Listener) receiver() string { return "statsd_" + l.Network }

func (l Listener) String() string { return l.Network + " " + l.Address }
