package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/identity"
	"github.com/sluice-metrics/sluice/operations"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/push"
	"github.com/sluice-metrics/sluice/receiver/statsd"
	"github.com/sluice-metrics/sluice/store"
)

// config is everything that serve can be told: the stages' own configurations, and what belongs to none of
// them.
type config struct {
	standalone bool
	log        logConfig
	statsd     statsdConfig
	receiver   receiver.Config
	push       push.Config
	identity   identity.Config
	table      aggregate.Config
	store      store.Config
	api        adapter.Config
	operations operations.Config
}

// statsdConfig names the StatsD listeners one by one; a receiver has a list of them.
type statsdConfig struct {
	udp, tcp, unixgram, unix string // addresses; empty: off
	dialect                  statsd.Dialect
	udpSockets               int
	readBuffer               int // bytes
}

type logConfig struct {
	level  slog.Level
	format string
}

func defaultConfig() *config {
	return &config{
		log: logConfig{level: slog.LevelInfo, format: "text"},
		statsd: statsdConfig{
			udp: "127.0.0.1:8125", tcp: "127.0.0.1:8125", readBuffer: 4 << 20,
		},
		receiver:   receiver.DefaultConfig(),
		push:       push.DefaultConfig(),
		identity:   identity.DefaultConfig(),
		table:      aggregate.DefaultConfig(),
		store:      store.DefaultConfig(),
		api:        adapter.DefaultConfig(),
		operations: operations.DefaultConfig(),
	}
}

// complete derives what one setting says to several stages.
func (c *config) complete() {
	c.receiver.Listeners = c.statsd.listeners()
	c.api.CertDir = c.store.Dir
}

func (s statsdConfig) listeners() []receiver.Listener {
	var all []receiver.Listener
	for _, l := range []receiver.Listener{
		{Network: "udp", Address: s.udp, Sockets: s.udpSockets, ReadBuffer: s.readBuffer},
		{Network: "tcp", Address: s.tcp},
		{Network: "unixgram", Address: s.unixgram, ReadBuffer: s.readBuffer},
		{Network: "unix", Address: s.unix},
	} {
		if l.Address != "" {
			l.Dialect = s.dialect
			all = append(all, l)
		}
	}
	return all
}

var errNoCluster = errors.New("--standalone is missing, and running in a cluster is not there yet: want --standalone")

// validate returns every fault, each naming its stage and field.
func (c *config) validate() error {
	var faults []error
	if !c.standalone {
		faults = append(faults, errNoCluster)
	}
	if c.store.Dir == "" {
		faults = append(faults, errors.New("--data-dir is empty: want a folder"))
	}
	if c.log.format != "text" && c.log.format != "json" {
		faults = append(faults, fmt.Errorf("--log-format: %q: want text or json", c.log.format))
	}
	for _, part := range []struct {
		name   string
		faults error
	}{
		{"statsd", c.receiver.Validate()},
		{"push", c.push.Validate()},
		{"identity", c.identity.Validate()},
		{"aggregate", c.table.Validate()},
		{"store", c.withDir().Validate()},
		{"api", c.api.Validate()},
		{"operations", c.operations.Validate()},
	} {
		for _, fault := range flatten([]error{part.faults}) {
			if !strings.HasPrefix(fault.Error(), part.name+": ") {
				fault = fmt.Errorf("%s: %w", part.name, fault)
			}
			faults = append(faults, fault)
		}
	}
	return usage(faults...)
}

// withDir is the store's configuration with a folder, so that a missing one is named once.
func (c *config) withDir() store.Config {
	s := c.store
	if s.Dir == "" {
		s.Dir = "."
	}
	return s
}

// warnings are settings that are legal and rarely meant.
func (c *config) warnings() []string {
	var all []string
	for _, ttl := range []struct {
		flag string
		is   time.Duration
	}{{"external-ttl", c.table.ExternalTTL}, {"object-ttl", c.table.ObjectTTL}} {
		if ttl.is < aggregate.ShortTTL {
			all = append(all, fmt.Sprintf("%s is %s: an autoscaler stops scaling on a metric that pauses longer; %s or more is advised",
				ttl.flag, ttl.is, aggregate.ShortTTL))
		}
	}
	return all
}
