package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/identity"
	"github.com/sluice-metrics/sluice/limit"
	"github.com/sluice-metrics/sluice/operations"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/group"
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
	groups     group.Config
	identity   identity.Config
	cluster    cluster.Config
	limit      limit.Config
	ignore     []string // patterns of names
	table      aggregate.Config
	store      store.Config
	api        adapter.Config
	operations operations.Config

	flags   map[string]bool   // the names of all flags
	written map[string]string // how settings stand in the configuration file, by flag
	memory  memoryLimit       // of the cgroup; zero: none
}

// statsdConfig names the StatsD listeners one by one; a receiver has a list of them.
type statsdConfig struct {
	udp, tcp, unixgram, unix string // addresses; empty: off
	dialect                  statsd.Dialect
	about                    word // what lines are about that do not say it
	udpSockets               int
	readBuffer               int // bytes
}

type logConfig struct {
	level  slog.Level
	format word
}

func defaultConfig() *config {
	return &config{
		log: logConfig{level: slog.LevelInfo, format: "text"},
		statsd: statsdConfig{
			udp: "127.0.0.1:8125", tcp: "127.0.0.1:8125", readBuffer: 4 << 20, about: aboutSender,
		},
		receiver:   receiver.DefaultConfig(),
		push:       push.DefaultConfig(),
		groups:     group.DefaultConfig(),
		identity:   identity.DefaultConfig(),
		cluster:    cluster.DefaultConfig(),
		limit:      limit.DefaultConfig(),
		ignore:     limit.DefaultIgnored,
		table:      aggregate.DefaultConfig(),
		store:      store.DefaultConfig(),
		api:        adapter.DefaultConfig(),
		operations: operations.DefaultConfig(),
	}
}

// complete derives what one setting says to several stages.
func (c *config) complete() {
	c.receiver.Listeners = c.statsd.listeners()
	c.push.Dialect = c.statsd.dialect
	c.api.CertDir = c.store.Dir
	c.push.MaxBufferedBytes = max(c.push.MaxBufferedBytes, // a body, and what it decompresses to
		int64(c.push.MaxBodyBytes)+int64(max(c.push.MaxBodyBytes, c.push.MaxDecompressedBytes)))
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
			if s.about == receiver.AboutExternal {
				l.About = receiver.AboutExternal
			}
			all = append(all, l)
		}
	}
	return all
}

var errNoCluster = errors.New("no cluster: this is no pod of one, and neither --kubeconfig nor --standalone is given; want one of them")

// inPod reports whether this is a pod of a cluster: the kubelet sets the variable in each (Kubernetes, "Accessing the API from
// a Pod").
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// validate returns the faults that reading the settings found and every one besides, each naming its flag. A
// setting that could not be read is not looked at again: it stands at its default.
func (c *config) validate(faults ...error) error {
	known := faulted(faults)
	fault := func(flag, format string, args ...any) {
		if !known[flag] {
			known[flag] = true
			faults = append(faults, c.fault(flag, format, args...))
		}
	}
	if !c.standalone && c.cluster.Kubeconfig == "" && !inPod() && !known["standalone"] && !known["config"] { // a broken file may have had it
		faults = append(faults, errNoCluster)
	}
	if c.standalone && c.cluster.Kubeconfig != "" {
		fault("kubeconfig", "is set with --standalone; must be one or the other")
	}
	if c.standalone && c.push.Auth == push.AuthToken {
		fault("push-auth", "is token; must be none with --standalone, because the API server of a cluster checks tokens")
	}
	if _, err := limit.ParsePatterns(c.ignore); err != nil {
		fault("ignore", "has %v", err)
	}
	return usage(append(faults, c.stageFaults(known)...)...)
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

// seriesBounds says what may be over the whole process, for whoever is refused a series.
func (c *config) seriesBounds() string {
	return fmt.Sprintf("over the whole process --max-series is %d and --max-bytes %s", c.table.MaxSeries, newSize(&c.table.MaxBytes))
}
