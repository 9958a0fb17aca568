package main

import (
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/push"
	"github.com/sluice-metrics/sluice/receiver/statsd"
	"github.com/spf13/pflag"
)

// setting is one entry of the server's configuration. All else follows from it: the flag, the key
// of the configuration file, the example file, the completion, and the chart's schema for "config".
type setting struct {
	name     string // of the flag and of the file's key
	variable any    // pointer to the field that it sets, or one of the types of setting_values.go
	help     string // understandable alone; its default and allowed values are printed beside it
}

// settingGroup is a heading of "sluice serve --help".
type settingGroup struct {
	heading  string
	settings []setting
}

// settingGroups is the one list of all settings. The field behind a variable holds its default.
func (c *serverConfig) settingGroups() []settingGroup {
	return []settingGroup{
		{"Cluster", []setting{
			{"standalone", &c.standalone,
				"Run on this machine alone, without a cluster. Claims are believed; no " +
					"authentication: anyone who can connect can read, push and delete."},
			{"kubeconfig", &c.cluster.Kubeconfig,
				"Kubeconfig of the cluster to serve; empty: the cluster in which this process " +
					"runs as a pod."},
			{"object-kinds", &words{&c.cluster.ObjectKinds},
				"Kinds of objects, beside pods, that metrics may describe, each as plural.group. " +
					"Sluice watches these objects for their labels and their deletion."},
		}},
		c.statsdSettings(),
		{"Export", []setting{
			{"relay-to", &words{&c.relay.Targets},
				"Addresses (udp://host:port or tcp://host:port) of StatsD servers that get all lines " +
					"of the StatsD listeners as they came; empty: off."},
			{"relay-queue", newSize(&c.relay.QueueBytes),
				"Limit of the lines that wait for each server of relay-to; lines beyond it are " +
					"dropped and counted."},
			{"export-histograms", &c.table.Histograms,
				"Keep the buckets of timers since their births, so that /metrics/series?timers=histogram " +
					"has native histograms. Takes some 200 bytes per timer, in memory and on disk."},
			{"export-otlp", &c.otlp.URL,
				"URL of an OpenTelemetry Collector that gets all live series over OTLP/HTTP, as in " +
					"http://collector:4318/v1/metrics; empty: off."},
			{"export-otlp-ca-file", &c.otlp.CAFile,
				"Certificate authorities of export-otlp, in PEM, reloaded when the file changes; empty: " +
					"those of the system."},
			{"export-otlp-client-cert-file", &c.otlp.CertFile,
				"Certificate that export-otlp is shown, in PEM, reloaded when the file changes; empty: " +
					"none."},
			{"export-otlp-client-key-file", &c.otlp.KeyFile,
				"Private key of export-otlp-client-cert-file, in PEM."},
			{"export-otlp-headers-file", &c.otlp.HeadersFile,
				"Headers of each request to export-otlp, reloaded when the file changes. Written as in " +
					"OTEL_EXPORTER_OTLP_HEADERS: authorization=Bearer%20TOKEN,other=VALUE. Empty: none."},
			{"export-otlp-interval", &c.otlp.Interval,
				"Time between two exports to export-otlp."},
		}},
		{"HTTP push", []setting{
			{"http-address", &c.push.Address,
				"Address (host:port) for HTTP push."},
			{"http-max-body", newSize(&c.push.MaxBodyBytes),
				"Largest body of an HTTP push, as received."},
			{"http-max-decompressed-body", newSize(&c.push.MaxDecompressedBytes),
				"Largest body of an HTTP push after decompression; 0: the value of http-max-body."},
			{"http-max-connections", &c.push.MaxConnections,
				"Limit of open connections for HTTP push. Under a cgroup memory limit below 2 GiB, the default is lower."},
			{"http-max-connections-per-address", &c.push.MaxConnsPerIP,
				"Limit of open connections for HTTP push from one address; 0: none. Under a cgroup memory limit " +
					"below 2 GiB, the default is lower."},
			{"http-group-ttl", &c.push.GroupTTL,
				"Lifetime of a group (the metrics pushed to one path /metrics/job/...) after its " +
					"last push, if the push names none; 0: until it is deleted."},
			{"http-max-groups", &c.groups.MaxGroups,
				"Limit of groups: each path /metrics/job/... that was pushed to is one."},
			{"http-max-group-bytes", newSize(&c.groups.MaxBytes),
				"Limit of the memory of all groups together. Under a cgroup memory limit, the " +
					"default is at most 1/8 of it."},
			{"http-group-namespace-share", &c.groups.NamespaceShare,
				"In a cluster, the share of http-max-groups and http-max-group-bytes that the " +
					"groups of one namespace may use, from 0 to 1; 0: all."},
			{"http-admin-wipe", &c.push.AdminWipe,
				"Serve PUT /api/v1/admin/wipe, which deletes all groups."},
			{"otlp-http-address", &c.push.OTLPAddress,
				"Second address (host:port) for HTTP push, where OpenTelemetry's clients look for OTLP over " +
					"HTTP, usually :4318; empty: none."},
			{"otlp-grpc-address", &c.push.OTLPGRPCAddress,
				"Address (host:port) for OpenTelemetry's metrics over gRPC, usually :4317, with the TLS, " +
					"the credentials and the memory of HTTP push; empty: off."},
			{"otlp-resource-attributes", &words{&c.push.OTLPResourceAttributes},
				"OpenTelemetry resource attributes that become labels. Attributes that identify " +
					"the object are always read and need not be named."},
		}},
		{"Pull", []setting{
			{"scrape", &c.cluster.Announcements,
				"In a cluster, take metrics from the endpoints that pods announce by the annotation " +
					"sluice.dev/endpoints or metrics.alpha.kubernetes.io/custom-endpoints, of up to 1,000 pods."},
		}},
		{"Credentials of HTTP push", []setting{
			{"push-auth", command.NewChoice(&c.push.Auth, pushAuths),
				"In a cluster, whether HTTP push accepts the bearer tokens of service accounts " +
					"(token), or knows senders by their address alone (none)."},
			{"push-token-audience", &c.push.TokenAudience,
				"Audience that bearer tokens for HTTP push must be issued for."},
			{"push-basic-auth-file", &c.push.BasicAuthFile,
				"File of names and passwords for HTTP push, in the format of htpasswd -B; empty: " +
					"no basic authentication."},
			{"push-allowed-hosts", &words{&c.push.AllowedHosts},
				"Host names by which clients on this machine may reach HTTP push without a " +
					"credential. localhost and IP addresses are always allowed; other names are " +
					"rejected as DNS rebinding."},
			{"push-tls-cert-file", &c.push.TLSCertFile,
				"Certificate of the HTTP push port, in PEM, reloaded when the file changes; " +
					"empty: plain HTTP."},
			{"push-tls-key-file", &c.push.TLSKeyFile,
				"Private key of push-tls-cert-file, in PEM."},
			{"push-tls-client-ca-file", &c.push.TLSClientCAFile,
				"Certificate authorities for the client certificates of HTTP push, in PEM; empty: " +
					"clients are not asked for a certificate."},
			{"push-tls-client-auth", command.NewChoice(&c.push.TLSClientAuth, clientAuths),
				"With push-tls-client-ca-file, whether clients may show a certificate (request) " +
					"or must (require)."},
		}},
		{"Kubernetes metrics APIs", []setting{
			{"api-address", &c.api.Address,
				"Address (host:port) for the metrics APIs, over TLS."},
			{"api-custom-metrics", &c.api.CustomMetrics,
				"Serve custom.metrics.k8s.io."},
			{"api-external-metrics", &c.api.ExternalMetrics,
				"Serve external.metrics.k8s.io."},
			{"api-unregistered", &words{&c.unregistered},
				"In a cluster, API groups among custom.metrics.k8s.io and external.metrics.k8s.io for which no APIService " +
					"leads to Sluice: they are served, and read for no autoscaler, since another server answers it."},
			{"api-own-groups", &c.api.OwnGroups,
				"Serve custom and external metrics under custom.metrics.sluice.dev and external.metrics.sluice.dev as " +
					"well, which no other product owns."},
			{"api-routes-file", &c.routesFile,
				"In a cluster, YAML file of other providers of external.metrics.k8s.io (KEDA, Datadog), to which Sluice " +
					"forwards what is theirs; empty: none."},
			{"api-resource-metrics", &c.api.ResourceMetrics,
				"In a cluster, serve metrics.k8s.io (kubectl top, autoscalers on cpu and memory) and usage.sluice.dev " +
					"from what agents with kubelet-address report."},
			{"api-cert-file", &c.api.CertFile,
				"Certificate of the metrics APIs, in PEM, reloaded when the file changes; empty: " +
					"a self-signed one is made in the data folder."},
			{"api-key-file", &c.api.KeyFile,
				"Private key of api-cert-file, in PEM."},
			{"api-discovery-limit", &c.api.DiscoveryLimit,
				"Limit of metric names that each API group lists."},
			{"api-max-in-flight", &c.api.MaxInFlight,
				"Limit of requests to the metrics APIs that are served at once. Requests with large " +
					"answers may use half of it."},
		}},
		{"Rules", []setting{
			{"rules-file", &c.rulesFile,
				"YAML file of MetricRules and ClusterMetricRules, which compute metrics from others; read " +
					"again when it changes; empty: none. In a cluster, they hold beside the cluster's."},
		}},
		{"Identity and trust", []setting{
			{"trust", command.NewChoice(&c.identity.Trust, trustModes),
				"In a cluster, which claims are believed. open: all. namespace: a pod may speak " +
					"of itself, and of objects and external metrics of its own namespace. strict: a " +
					"pod may speak of itself only."},
			{"trusted-forwarders", &words{&c.identity.TrustedForwarders},
				"Senders that may speak for others: CIDRs, addresses, namespace/serviceaccount, " +
					"or unix for the Unix sockets."},
			{"external-writers", &words{&c.identity.ExternalWriters},
				"Senders that may write external metrics of no namespace: CIDRs, addresses, " +
					"namespace/serviceaccount, or unix for the Unix sockets."},
			{"default-namespace", &c.identity.DefaultNamespace,
				"Without a cluster, the namespace of an object whose claim names none."},
		}},
		{"Limits and filters", []setting{
			{"pod-metrics", &c.limit.PodMetrics,
				"In a cluster, default limit of metrics per pod (override: LimitRange)."},
			{"pod-series", &c.limit.PodSeries,
				"In a cluster, default limit of series per pod (override: LimitRange)."},
			{"namespace-metrics", &c.limit.NamespaceMetrics,
				"In a cluster, default limit of metrics per namespace, without those of its pods " +
					"(override: LimitRange)."},
			{"namespace-series", &c.limit.NamespaceSeries,
				"In a cluster, default limit of series per namespace, without those of its pods " +
					"(override: LimitRange)."},
			{"ignore", &words{&c.ignore},
				"Patterns of metric names whose samples are counted and dropped; * matches any " +
					"part of a name."},
		}},
		{"Table", []setting{
			{"windows", &durations{&c.table.Windows},
				"Windows that readers may ask for: whole seconds, each a multiple of the " +
					"shortest."},
			{"external-ttl", &c.table.ExternalTTL,
				"Lifetime of an external series after its last sample."},
			{"object-ttl", &c.table.ObjectTTL,
				"Lifetime of an object's series after its last sample, where no cluster says " +
					"whether the object exists."},
			{"max-series", &c.table.MaxSeries,
				"Limit of series in the whole process. Under a cgroup memory limit, the default " +
					"is at most one per 2KiB of it."},
			{"max-bytes", newSize(&c.table.MaxBytes),
				"Limit of the memory of names, labels, aliases, timers and sets together. Under a " +
					"cgroup memory limit, the default is at most 2/5 of it."},
		}},
		{"Store", []setting{
			{"data-dir", &c.store.Dir,
				"Folder for all that survives a restart. Created if it is missing; otherwise it " +
					"must be empty or Sluice's own."},
			{"flush-interval", &c.store.FlushInterval,
				"Time between two writes to the database. A killed process loses the samples of a " +
					"little more than this."},
			{"sync-interval", &c.store.SyncInterval,
				"Time between two fsyncs of the database. A power failure loses the samples of " +
					"this time."},
			{"min-free-disk", newSize(&c.store.MinFreeBytes),
				"Free disk space below which nothing is persisted."},
		}},
		{"Replicas", []setting{
			{"replica-peers", &words{&c.natsbus.Peers},
				"Addresses (host:port) of all replicas; the own address may be among them. Each " +
					"replica receives, and answers with the values of all; empty: one process."},
			{"replica-name", &c.natsbus.Name,
				"Name of this replica, of a-z, 0-9 and -. It belongs to the data in data-dir, and no other " +
					"replica has it; empty: the name in data-dir, at the first start the host's."},
			{"replica-listen", &c.natsbus.Listen,
				"With replica-peers, the address (host:port) for connections of other replicas."},
			{"replica-cluster", &c.natsbus.Cluster,
				"Name that replicas of one Sluice have in common, of a-z, 0-9 and -. Replicas of " +
					"another name are ignored. In a cluster it is also the name of their Lease."},
			{"replica-tls-cert-file", &c.natsbus.CertFile,
				"Certificate for the connections between replicas, in PEM, for servers and clients, " +
					"reloaded when the file changes. It must name a host of replica-peers."},
			{"replica-tls-key-file", &c.natsbus.KeyFile,
				"Private key of replica-tls-cert-file, in PEM."},
			{"replica-tls-ca-file", &c.natsbus.CAFile,
				"Certificate authorities of the replicas' certificates, in PEM."},
			{"replica-insecure", &c.natsbus.Insecure,
				"Connect replicas without TLS, for tests on one machine: anyone who can connect to " +
					"replica-listen can read and change all metrics."},
			{"replica-assume-cut", &c.natsbus.AssumeCut,
				"Standalone: take a replica that is not heard for alive behind a cut link. Its last rates then stand " +
					"for up to 5 minutes. Off: it has ended, and its clients push to others. In a cluster the API " +
					"server tells which, and the setting has no effect."},
			{"nats-url", &c.natsbus.URL,
				"URL of a NATS of your own that connects the replicas, instead of replica-peers, as " +
					"in tls://nats.example:4222; empty: replicas connect to each other."},
			{"nats-creds-file", &c.natsbus.CredsFile,
				"Credentials file for nats-url; empty: none."},
			{"nats-ca-file", &c.natsbus.URLCAFile,
				"Certificate authorities of nats-url, in PEM; empty: those of the system."},
		}},
		{"Agents", []setting{
			{"agents-address", &c.agents.Address,
				"Address (host:port) for agents of nodes (gRPC), usually :9097; empty: off."},
			{"agents-accounts", &words{&c.agents.Accounts},
				"In a cluster, the service accounts of agents, each as namespace/name. Their tokens, bound to a pod, say " +
					"which node an agent is of."},
			{"agents-startup-taint", &c.agents.StartupTaint,
				"In a cluster, remove the taint sluice.dev/agent-not-ready of a node once its agent is connected."},
			{"agents-max-bytes", newSize(&c.agents.MaxBytes),
				"Limit of the memory of the series that agents tell of, some 0.5 KiB each, and of their samples that wait; a namespace " +
					"has at most three times what is left. Under a cgroup memory limit, the default is at most an eighth of it."},
			{"agents-tls-cert-file", &c.agents.CertFile,
				"Certificate of agents-address, in PEM, reloaded when the file changes."},
			{"agents-tls-key-file", &c.agents.KeyFile,
				"Private key of agents-tls-cert-file, in PEM."},
			{"agents-insecure", &c.agents.Insecure,
				"Serve agents-address without TLS: anyone on the way can read and change what agents report."},
		}},
		{"KEDA", []setting{
			{"keda-address", &c.keda.Address,
				"Address (host:port) for KEDA's external scaler protocol (gRPC), usually :9095; empty: " +
					"off."},
			{"keda-tls-cert-file", &c.keda.CertFile,
				"Certificate of keda-address, in PEM, reloaded when the file changes."},
			{"keda-tls-key-file", &c.keda.KeyFile,
				"Private key of keda-tls-cert-file, in PEM."},
			{"keda-tls-client-ca-file", &c.keda.CAFile,
				"Certificate authorities of the certificate that KEDA shows, in PEM."},
			{"keda-client-names", &words{&c.keda.ClientNames},
				"Host names of which KEDA's certificate must have one."},
			{"keda-insecure", &c.keda.Insecure,
				"Serve keda-address without TLS: anyone who can connect to it can read the metrics of " +
					"all namespaces."},
		}},
		{"Scaling at the push", []setting{
			{"instant", &c.instant.Enabled,
				"In a cluster, have the controller of an autoscaler with the annotation sluice.dev/instant: \"true\" " +
					"look at the push that changes its replicas, instead of at its next sync. Needs Kubernetes 1.37 and " +
					"the right to patch horizontalpodautoscalers."},
			{"instant-interval", &c.instant.Interval,
				"With instant, the shortest time between two nudges of one autoscaler."},
			{"wake", &c.wake.Enabled,
				"In a cluster, set the first replica of the target of an autoscaler with the annotation " +
					"sluice.dev/wake: \"true\", at the push that makes a metric of it positive. Needs the right to " +
					"patch the scale subresource of targets."},
			{"wake-cooldown", &c.wake.Cooldown,
				"With wake, the shortest time between two wakes of one target. Meanwhile its autoscaler alone " +
					"scales it."},
		}},
		{"Operations and logging", []setting{
			{"ops-address", &c.operations.Address,
				"Address (host:port) for /livez, /readyz and /metrics."},
			{"console-address", &c.console.Address,
				"Address (host:port) for the console, web pages that show autoscalers, metrics and " +
					"rejections, usually 127.0.0.1:9096; empty: off. On a loopback address anyone who can " +
					"connect can read. On another one, in a cluster only, requests show a token, over TLS " +
					"with the certificate of the metrics APIs."},
			{"shutdown-delay", &c.shutdownDelay,
				"Time between the signal to stop and the stop. Meanwhile /readyz fails and all " +
					"else goes on, so that load balancers lead elsewhere; a second signal ends it."},
			c.logLevel(),
			c.logFormat(),
		}},
	}
}

func (c *serverConfig) logLevel() setting {
	return setting{"log-level", command.NewChoice(&c.log.level, levels), "Lowest level that is logged."}
}

func (c *serverConfig) logFormat() setting {
	return setting{"log-format", command.NewChoice(&c.log.format, formats), "Format of the log."}
}

// statsdSettings are those of the StatsD listeners, of a server and of an agent.
func (c *serverConfig) statsdSettings() settingGroup {
	return settingGroup{"StatsD", []setting{
		{"statsd-udp", &c.statsd.udp,
			"Address (host:port) for StatsD over UDP; empty: off."},
		{"statsd-tcp", &c.statsd.tcp,
			"Address (host:port) for StatsD over TCP; empty: off."},
		{"statsd-unixgram", &c.statsd.unixgram,
			"Path of a Unix datagram socket for StatsD; empty: off."},
		{"statsd-unix", &c.statsd.unix,
			"Path of a Unix stream socket for StatsD lines or DogStatsD packets; empty: off."},
		{"dialect", command.NewChoice(&c.statsd.dialect, dialects),
			"Dialect of StatsD lines, on every listener and in pushes to /v1/statsd."},
		{"statsd-about", command.NewChoice(&c.statsd.about, abouts),
			"In a cluster, the object of StatsD lines that name none: sender is the pod that " +
				"sent them, external is no object."},
		{"statsd-udp-sockets", &c.statsd.udpSockets,
			"Number of UDP sockets that share the StatsD address, each with a goroutine of " +
				"its own; 0: one per processor, at most 4."},
		{"statsd-read-buffer", newSize(&c.statsd.readBuffer),
			"Kernel receive buffer of each StatsD datagram socket; 0: the system's default."},
		{"statsd-max-connections", &c.receiver.MaxConnections,
			"Limit of open connections per StatsD stream listener. At the limit, a new " +
				"connection replaces one that has been idle for 30s or has brought no sample yet."},
		{"statsd-max-connections-per-address", &c.receiver.MaxConnectionsPerAddress,
			"Limit of open connections per StatsD stream listener from one address. " +
				"At the limit, connections are replaced as for statsd-max-connections."},
		{"statsd-idle-timeout", &c.receiver.IdleTimeout,
			"Time without data after which a StatsD connection is closed; 0: never."},
	}}
}

// aboutSender says that a line which names no object describes the pod that sent it.
const aboutSender = "sender"

// The allowed values of settings that take one of a few words. A test holds those of other
// packages' types to what the types accept.
var (
	dialects    = statsd.DialectNames()
	abouts      = []string{aboutSender, receiver.AboutExternal}
	pushAuths   = []string{push.AuthNone, push.AuthToken}
	clientAuths = []string{push.ClientAuthRequest, push.ClientAuthRequire}
	trustModes  = []string{"open", "namespace", "strict"}
	levels      = []string{"debug", "info", "warn", "error"}
	formats     = []string{"text", "json"}
)

// bind makes a flag of every setting. The current values become the defaults.
func (c *serverConfig) bind(flags *pflag.FlagSet) { c.bindGroups(flags, c.settingGroups()) }

func (c *serverConfig) bindGroups(flags *pflag.FlagSet, groups []settingGroup) {
	flags.SortFlags = false
	c.names = map[any]string{}
	for _, group := range groups {
		command.UnderHeading(flags, group.heading, func() {
			for _, s := range group.settings {
				bindFlag(flags, s)
				c.names[s.field()] = s.name
			}
		})
	}
}

// field is a pointer to the field that a setting sets.
func (s setting) field() any {
	if value, ok := s.variable.(targeted); ok {
		return value.Target()
	}
	return s.variable
}

func bindFlag(flags *pflag.FlagSet, s setting) {
	switch variable := s.variable.(type) {
	case *string:
		flags.StringVar(variable, s.name, *variable, s.help)
	case *int:
		flags.IntVar(variable, s.name, *variable, s.help)
	case *float64:
		flags.Float64Var(variable, s.name, *variable, s.help)
	case *bool:
		flags.BoolVar(variable, s.name, *variable, s.help)
	case *time.Duration:
		flags.DurationVar(variable, s.name, *variable, s.help)
	case pflag.Value:
		flags.Var(variable, s.name, s.help)
	default:
		panic(fmt.Sprintf("setting %s: no flag can be made of a %T", s.name, s.variable))
	}
}
