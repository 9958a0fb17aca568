package receiver

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// Config says where to listen and what is too much.
type Config struct {
	Listeners []Listener `json:"listeners"`
	// MaxLine bounds a line, MaxTags the tags in it, on every listener.
	MaxLine int `json:"maxLine"`
	MaxTags int `json:"maxTags"`
	// MaxPacket bounds what a unix stream announces as one packet, in bytes.
	MaxPacket int `json:"maxPacket"`
	// MaxConnections bounds the open connections of each stream listener. Beyond it the connection that has been idle
	// longest is closed for the new one; if none is idle, the new one is closed.
	MaxConnections int `json:"maxConnections"`
	// MaxConnectionsPerAddress bounds in the same way those of one address (IPv6: of one /64), so that one noisy client
	// does not take the places of all.
	MaxConnectionsPerAddress int `json:"maxConnectionsPerAddress"`
	// IdleTimeout closes a connection that sent nothing for so long; 0 never does.
	IdleTimeout time.Duration `json:"idleTimeout"`
	// DrainTimeout bounds how long a stop reads on what had already arrived.
	DrainTimeout time.Duration `json:"drainTimeout"`
	// Pending bounds what is held until it is known whose it is.
	Pending PendingConfig `json:"pending"`
}

// Listener is one address that StatsD comes in by.
type Listener struct {
	// Network is "udp", "tcp" (lines), "unixgram" or "unix" (a stream of lines, or of packets, each behind its length
	// as four bytes, little end first, as DogStatsD's clients send it; the first four bytes tell).
	Network string `json:"network"`
	// Address is host:port, or the path of a socket file.
	Address string         `json:"address"`
	Dialect statsd.Dialect `json:"dialect"`
	// Sockets is how many UDP sockets share the address, each with a buffer and a goroutine of its own;
	// 0 is one per processor, at most 4.
	Sockets int `json:"sockets"`
	// About is what the listener's samples are about that say nothing themselves: "" is the pod that sent them,
	// "external" is no object, as for batch machines that report on something else.
	About string `json:"about"`
	// ReadBuffer is the kernel's buffer of each socket, in bytes; 0 leaves the system's default.
	ReadBuffer int `json:"readBuffer"`
}

// AboutExternal is the one value of Listener.About.
const AboutExternal = "external"

const (
	maxSockets    = 64
	maxPacketSize = 1 << 20
	maxUnixPath   = 107 // sun_path, less its NUL
)

// DefaultConfig listens on port 8125, UDP and TCP.
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
		Pending:                  DefaultPendingConfig(),
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	faults := []error{c.options(statsd.StatsD).Validate(), c.Pending.Validate()}
	seen := map[string]int{}
	for i, l := range c.Listeners {
		for _, fault := range l.faults() {
			faults = append(faults, fmt.Errorf("listeners[%d].%w", i, fault))
		}
		key := l.Network + " " + l.Address
		if first, twice := seen[key]; twice && !l.anyPort() {
			faults = append(faults, fmt.Errorf("listeners[%d]: %s is listeners[%d] already", i, key, first))
		}
		seen[key] = i
	}
	if c.MaxPacket < c.MaxLine || c.MaxPacket > maxPacketSize {
		faults = append(faults, fmt.Errorf("maxPacket %d: want between maxLine and %d bytes", c.MaxPacket, maxPacketSize))
	}
	if c.MaxConnectionsPerAddress < 1 {
		faults = append(faults, fmt.Errorf("maxConnectionsPerAddress %d: want at least 1", c.MaxConnectionsPerAddress))
	}
	if c.MaxConnections < 1 {
		faults = append(faults, fmt.Errorf("maxConnections %d: want at least 1", c.MaxConnections))
	}
	if c.IdleTimeout < 0 {
		faults = append(faults, fmt.Errorf("idleTimeout %v: want 0 (never) or more", c.IdleTimeout))
	}
	if c.DrainTimeout < 0 {
		faults = append(faults, fmt.Errorf("drainTimeout %v: want 0 or more", c.DrainTimeout))
	}
	return errors.Join(faults...)
}

func (c Config) options(d statsd.Dialect) statsd.Options {
	return statsd.Options{Dialect: d, MaxLine: c.MaxLine, MaxTags: c.MaxTags}
}

func (l Listener) faults() (faults []error) {
	switch l.Network {
	case "udp", "tcp":
		if err := checkHostPort(l.Address); err != nil {
			faults = append(faults, fmt.Errorf("address %q: %w", l.Address, err))
		}
	case "unixgram", "unix":
		if n := len(l.Address); n == 0 || n > maxUnixPath {
			faults = append(faults, fmt.Errorf("address %q: want a path of 1 to %d bytes", l.Address, maxUnixPath))
		}
	default:
		faults = append(faults, fmt.Errorf("network %q: want udp, tcp, unixgram or unix", l.Network))
	}
	dialects := []statsd.Dialect{statsd.StatsD, statsd.DogStatsD, statsd.Influx, statsd.Librato, statsd.SignalFx}
	if !slices.Contains(dialects, l.Dialect) {
		faults = append(faults, fmt.Errorf("dialect %d: want one of %v", l.Dialect, dialects))
	}
	if l.About != "" && l.About != AboutExternal {
		faults = append(faults, fmt.Errorf("about %q: want %q or nothing", l.About, AboutExternal))
	}
	switch {
	case l.Sockets < 0 || l.Sockets > maxSockets:
		faults = append(faults, fmt.Errorf("sockets %d: want 0 to %d", l.Sockets, maxSockets))
	case l.Sockets > 1 && l.Network != "udp":
		faults = append(faults, fmt.Errorf("sockets %d: only udp can have more than one", l.Sockets))
	}
	if l.ReadBuffer < 0 || l.ReadBuffer > 1<<30 {
		faults = append(faults, fmt.Errorf("readBuffer %d: want 0 to %d bytes", l.ReadBuffer, 1<<30))
	}
	return faults
}

func checkHostPort(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("want host:port or :port")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q: want 0 to 65535", port)
	}
	return nil
}

// anyPort reports whether the system picks the port, so that the address may stand twice.
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

// receiver is the name that the listener's samples are accounted under.
func (l Listener) receiver() string { return "statsd_" + l.Network }

func (l Listener) String() string { return l.Network + " " + l.Address }
