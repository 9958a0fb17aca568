package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/wake"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/console"
	"github.com/sluice-metrics/sluice/adapter/export/otlp"
	"github.com/sluice-metrics/sluice/adapter/keda"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/limit"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/internal/operations"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/identity"
	"github.com/sluice-metrics/sluice/receiver/push"
	"github.com/sluice-metrics/sluice/receiver/relay"
	"github.com/sluice-metrics/sluice/receiver/statsd"
	"github.com/sluice-metrics/sluice/replica/agents"
	"github.com/sluice-metrics/sluice/replica/natsbus"
	"github.com/sluice-metrics/sluice/store"
)

// serverConfig is the configuration of "sluice serve": those of the stages, and what belongs to
// none.
type serverConfig struct {
	standalone bool
	log        logConfig
	statsd     statsdConfig
	receiver   receiver.Config
	push       push.Config
	groups     group.Config
	identity   identity.Config
	cluster    cluster.Config
	limit      limit.Config
	ignore     []string // patterns of metric names
	table      aggregate.Config
	store      store.Config
	natsbus    natsbus.Config
	relay      relay.Config
	otlp       otlp.Config
	api        adapter.Config
	operations operations.Config
	console    console.Config
	agents     agents.Config
	keda       keda.Config
	wake       wake.Config
	instant    wake.NudgeConfig

	rulesFile     string
	routesFile    string   // of other providers of external metrics
	unregistered  []string // API groups for which another server is asked
	shutdownDelay time.Duration

	names   map[any]string    // names of settings, by pointer to the field that a setting sets
	written map[string]string // names of settings as they stand in the configuration file, "FILE:3: NAME"
	memory  memoryLimit       // of the cgroup; zero: none
}

// statsdConfig names the StatsD listeners one by one; the receiver has a list of them.
type statsdConfig struct {
	udp, tcp, unixgram, unix string // addresses; empty: off
	dialect                  statsd.Dialect
	about                    string // object of lines that name none
	udpSockets               int
	readBuffer               int // bytes
}

type logConfig struct {
	level  slog.Level
	format string
}

func defaultConfig() *serverConfig {
	return &serverConfig{
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
		store:      defaultStore(),
		natsbus:    natsbus.DefaultConfig(),
		relay:      relay.DefaultConfig(),
		otlp:       otlp.DefaultConfig(),
		api:        adapter.DefaultConfig(),
		operations: operations.DefaultConfig(),
		agents:     agents.DefaultConfig(),
		keda:       keda.DefaultConfig(),
		wake:       wake.DefaultConfig(),
		instant:    wake.DefaultNudgeConfig(),
	}
}

func defaultStore() store.Config {
	c := store.DefaultConfig()
	c.Dir = "data"
	return c
}

// complete sets the fields that follow from settings of other stages.
func (c *serverConfig) complete() {
	c.receiver.Listeners = c.statsd.listeners()
	c.push.Dialect, c.receiver.HTTPAddress = c.statsd.dialect, c.push.Address
	c.api.CertDir = c.store.Dir
	c.console.Standalone = c.standalone
	c.table.NamespaceShares = !c.standalone
	if c.natsbus.Enabled() {
		c.table.Replicated = true
		c.cluster.Replicas = c.natsbus.Cluster
		c.shareReplicaName()
	}
	c.push.MaxBufferedBytes = max(c.push.MaxBufferedBytes, // one body, and the same body decompressed
		int64(c.push.MaxBodyBytes)+int64(max(c.push.MaxBodyBytes, c.push.MaxDecompressedBytes)))
}

// shareReplicaName sets the fields of other stages that follow from the replica's name.
func (c *serverConfig) shareReplicaName() {
	c.limit.Origin, c.cluster.Replica = c.natsbus.ReplicaName(), c.natsbus.ReplicaName()
}

// groupBounds bounds the groups. Without a cluster, namespaces have no shares.
func (c *serverConfig) groupBounds() group.Config {
	bounds := c.groups
	if c.standalone {
		bounds.NamespaceShare = 0
	}
	return bounds
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

// listenerField is the field of statsdConfig behind a field of the receiver's listener; nil: none.
func (s *statsdConfig) listenerField(network string, field config.Field) any {
	switch field {
	case "Address":
		return map[string]*string{"udp": &s.udp, "tcp": &s.tcp, "unixgram": &s.unixgram, "unix": &s.unix}[network]
	case "Dialect":
		return &s.dialect
	case "About":
		return &s.about
	case "Sockets":
		return &s.udpSockets
	case "ReadBuffer":
		return &s.readBuffer
	}
	return nil
}

var errNoCluster = errors.New("no cluster: this process runs in no pod; must have --kubeconfig, or --standalone to run without one")

// inPod reports whether this process runs in a pod: the kubelet sets the variable there
// (Kubernetes, "Accessing the API from a Pod").
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// validate returns the faults found while the settings were read, and all others. A setting that
// could not be read is not checked again: it is at its default.
func (c *serverConfig) validate(faults ...error) error {
	known := faulty(faults)
	for _, fault := range faults {
		var unknown *command.UnknownFlag
		if errors.As(fault, &unknown) && unknown.Nearest != "" {
			known[unknown.Nearest] = true
		}
	}
	if !c.standalone && c.cluster.Kubeconfig == "" && !inPod() &&
		!known["standalone"] && !known["kubeconfig"] && !known["config"] { // a broken file may set either
		faults = append(faults, errNoCluster)
	}
	own := config.Faults{}
	if c.standalone && c.cluster.Kubeconfig != "" {
		own = append(own, c.fault("kubeconfig", "is set, and so is --standalone; must be one of them"))
	}
	if c.standalone && c.push.Auth == push.AuthToken {
		own = append(own, c.fault("push-auth", "is token, which needs a cluster to check tokens; must be none with --standalone"))
	}
	if c.standalone && c.cluster.Announcements {
		own = append(own, c.fault("scrape", "is true, which needs a cluster with pods; must be false with --standalone"))
	}
	if c.standalone && c.wake.Enabled {
		own = append(own, c.fault("wake", "is true, which needs a cluster with autoscalers; must be false with --standalone"))
	}
	if c.standalone && c.instant.Enabled {
		own = append(own, c.fault("instant", "is true, which needs a cluster with autoscalers; must be false with --standalone"))
	}
	if c.routesFile != "" && (c.standalone || !c.api.ExternalMetrics) {
		own = append(own, c.fault("api-routes-file", "is set, and external metrics are served standalone or not at all; must be empty there"))
	}
	for _, group := range c.unregistered {
		if group != explain.CustomGroup && group != explain.ExternalGroup {
			own = append(own, c.fault("api-unregistered", "has %q; must be %s or %s", group, explain.CustomGroup, explain.ExternalGroup))
		}
	}
	if c.agents.StartupTaint && (c.standalone || !c.agents.Enabled()) {
		own = append(own, c.fault("agents-startup-taint", "is true without a cluster or agents-address; must be false there"))
	}
	if c.api.ResourceMetrics && (c.standalone || !c.agents.Enabled()) {
		own = append(own, c.fault("api-resource-metrics", "is true without agents in a cluster, which report what is used; must be false, or agents-address must be set"))
	}
	if c.agents.Enabled() && !c.standalone && len(c.agents.Accounts) == 0 {
		own = append(own, c.fault("agents-accounts", "is empty; must name the service account of the agents, such as sluice/sluice-agent"))
	}
	if c.shutdownDelay < 0 {
		own = append(own, c.fault("shutdown-delay", "is %v; must not be negative", c.shutdownDelay))
	}
	if _, err := limit.ParsePatterns(c.ignore); err != nil {
		own = append(own, c.fault("ignore", "%v", err))
	}
	for _, stage := range []struct {
		name   string
		config validator
	}{
		{"statsd", &c.receiver}, {"push", &c.push}, {"groups", &c.groups}, {"identity", &c.identity},
		{"cluster", &c.cluster}, {"limit", &c.limit}, {"table", &c.table}, {"store", &c.store},
		{"natsbus", &c.natsbus}, {"relay", &c.relay}, {"otlp", &c.otlp}, {"api", &c.api}, {"operations", &c.operations},
		{"console", &c.console}, {"agents", &c.agents}, {"keda", &c.keda}, {"wake", &c.wake}, {"instant", &c.instant},
	} {
		for _, fault := range config.Split(stage.config.Validate()) {
			worded, ok := c.word(stage.config, fault)
			if !ok {
				worded = fmt.Errorf("%s: %w", stage.name, fault)
			}
			own = append(own, worded)
		}
	}
	said := map[string]bool{} // a setting of several listeners is at fault in each
	for _, fault := range own {
		if name := faultySetting(fault); !known[name] && !said[fault.Error()] {
			faults = append(faults, fault)
		}
		said[fault.Error()] = true
	}
	return command.Usage(faults...)
}

// warnings lists settings that are valid and rarely intended.
func (c *serverConfig) warnings() []string {
	var all []string
	for _, ttl := range []struct {
		flag string
		is   time.Duration
	}{{"external-ttl", c.table.ExternalTTL}, {"object-ttl", c.table.ObjectTTL}} {
		if ttl.is < aggregate.ShortTTL {
			all = append(all, fmt.Sprintf("%s is %v: autoscalers stop scaling on a metric that pauses longer; should be %v or more",
				ttl.flag, ttl.is, aggregate.ShortTTL))
		}
	}
	if !c.standalone && !slices.Contains(c.cluster.ObjectKinds, namespaceResource) {
		all = append(all, "object-kinds lacks namespaces: the metrics of a namespace that is deleted are left to the next one of its name; should list namespaces")
	}
	if c.natsbus.PlainURL() {
		all = append(all, "nats-url is without TLS: anyone on the way to that NATS can read and change all metrics; should be tls://HOST:PORT")
	}
	if c.natsbus.AnonymousURL() {
		all = append(all, "nats-url is without a credential: anyone who may connect to that NATS can read and change all metrics; should have nats-creds-file")
	}
	return all
}

// seriesBounds names the bounds of the whole process, for clients whose series was rejected.
func (c *serverConfig) seriesBounds() string {
	return fmt.Sprintf("over the whole process --max-series is %d and --max-bytes %s", c.table.MaxSeries,
		newSize(&c.table.MaxBytes))
}
