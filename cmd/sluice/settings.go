package main

import (
	"github.com/spf13/pflag"
)

// bind makes a flag of everything that can be set. The flags' names are also the keys of the configuration
// file (configfile.go), and the example file is printed from them: this list is the only one.
func (c *config) bind(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.BoolVar(&c.standalone, "standalone", false, "run on this machine alone, without a cluster: claims are believed; no authentication: anyone who can connect can read, push and delete")
	flags.StringVar(&c.cluster.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to serve; empty: the cluster that this pod runs in")
	flags.StringVar(&c.store.Dir, "data-dir", "data", "folder for what survives a restart; made if it is missing, must be Sluice's own")

	flags.StringVar(&c.statsd.udp, "statsd-udp", c.statsd.udp, "host:port for StatsD over UDP; empty: off")
	flags.StringVar(&c.statsd.tcp, "statsd-tcp", c.statsd.tcp, "host:port for StatsD over TCP; empty: off")
	flags.StringVar(&c.statsd.unixgram, "statsd-unixgram", "", "path of a Unix datagram socket for StatsD; empty: off")
	flags.StringVar(&c.statsd.unix, "statsd-unix", "", "path of a Unix stream socket for StatsD lines or DogStatsD packets; empty: off")
	flags.Var(&choice{"dialect", dialects, &c.statsd.dialect}, "dialect", "how StatsD lines are read, on every listener and by /v1/statsd: statsd, dogstatsd, influx, librato or signalfx")
	flags.Var(&choice{"about", abouts, &c.statsd.about}, "statsd-about", "in a cluster, what StatsD lines are about that name nothing: sender (the pod that sent them) or external (no object)")
	flags.IntVar(&c.statsd.udpSockets, "statsd-udp-sockets", 0, "UDP sockets that share the address, each with a goroutine; 0: one a processor, at most 4")
	flags.Var(newSize(&c.statsd.readBuffer), "statsd-read-buffer", "kernel buffer of each datagram socket; 0: the system's default")
	flags.IntVar(&c.receiver.MaxConnections, "statsd-max-connections", c.receiver.MaxConnections, "open connections of each StatsD stream listener; beyond it one that has been idle for 30s or longer, or brought no sample yet, is closed for the new one")
	flags.IntVar(&c.receiver.MaxConnectionsPerAddress, "statsd-max-connections-per-address", c.receiver.MaxConnectionsPerAddress, "open connections of each StatsD stream listener from one IPv4 address or one IPv6 /64; beyond it as beyond statsd-max-connections")
	flags.DurationVar(&c.receiver.IdleTimeout, "statsd-idle-timeout", c.receiver.IdleTimeout, "closes a StatsD connection that sent nothing for so long; 0: never")

	flags.StringVar(&c.push.Address, "http-address", c.push.Address, "host:port for HTTP push")
	flags.Var(newSize(&c.push.MaxBodyBytes), "http-max-body", "largest body of a push, as it comes over the wire")
	flags.Var(newSize(&c.push.MaxDecompressedBytes), "http-max-decompressed-body", "largest body of a push after decompression; 0: as http-max-body")
	flags.IntVar(&c.push.MaxConnections, "http-max-connections", c.push.MaxConnections, "open connections for HTTP push")
	flags.IntVar(&c.push.MaxConnsPerIP, "http-max-connections-per-address", c.push.MaxConnsPerIP, "of them from one IPv4 address or one IPv6 /64; 0: no limit")
	flags.DurationVar(&c.push.GroupTTL, "http-group-ttl", c.push.GroupTTL, "how long what is pushed to /metrics/job/... lives after its last push that says nothing of it; 0: until it is deleted")
	flags.IntVar(&c.groups.MaxGroups, "http-max-groups", c.groups.MaxGroups, "groups that are kept at most: each path /metrics/job/... that was pushed to is one")
	flags.Var(newSize(&c.groups.MaxBytes), "http-max-group-bytes", "memory that all groups may take together; unset under a cgroup memory limit: at most 1/8 of it")
	flags.Float64Var(&c.groups.NamespaceShare, "http-group-namespace-share", c.groups.NamespaceShare, "in a cluster, the part of both that the groups of one namespace may take; 0: all")
	flags.BoolVar(&c.push.AdminWipe, "http-admin-wipe", c.push.AdminWipe, "serve PUT /api/v1/admin/wipe, which deletes all that is pushed to /metrics/job/...")

	flags.Var(&words{&c.push.OTLPResourceAttributes}, "otlp-resource-attributes", "attributes of OpenTelemetry resources that become labels, comma-separated; those that say which object it is about need not be named")
	flags.Var(&choice{"mode", pushAuths, (*word)(&c.push.Auth)}, "push-auth", "in a cluster, whether HTTP requests may show bearer tokens: none (senders are known by their address) or token")
	flags.StringVar(&c.push.TokenAudience, "push-token-audience", c.push.TokenAudience, "audience that these tokens must be for")
	flags.StringVar(&c.push.BasicAuthFile, "push-basic-auth-file", "", "names and passwords that HTTP requests may show, as htpasswd -B writes them; empty: none are looked at")
	flags.Var(&words{&c.push.AllowedHosts}, "push-allowed-hosts", "host names by which clients on this machine may call the HTTP push port without a credential, comma-separated; localhost and IP addresses always may, others are refused as DNS rebinding")
	flags.StringVar(&c.push.TLSCertFile, "push-tls-cert-file", "", "certificate of the HTTP push port, PEM, read again when it changes; empty: plain HTTP")
	flags.StringVar(&c.push.TLSKeyFile, "push-tls-key-file", "", "its key, PEM")
	flags.StringVar(&c.push.TLSClientCAFile, "push-tls-client-ca-file", "", "authorities whose client certificates are believed there, PEM; empty: none is asked for")
	flags.Var(&choice{"mode", clientAuths, (*word)(&c.push.TLSClientAuth)}, "push-tls-client-auth", "whether a client may show such a certificate (request) or must (require)")

	flags.StringVar(&c.api.Address, "api-address", c.api.Address, "host:port for the metrics APIs, TLS")
	flags.BoolVar(&c.api.CustomMetrics, "api-custom-metrics", c.api.CustomMetrics, "serve custom.metrics.k8s.io")
	flags.BoolVar(&c.api.ExternalMetrics, "api-external-metrics", c.api.ExternalMetrics, "serve external.metrics.k8s.io")
	flags.StringVar(&c.api.CertFile, "api-cert-file", "", "serving certificate, PEM; empty: a self-signed one is made in the data folder")
	flags.StringVar(&c.api.KeyFile, "api-key-file", "", "its key, PEM")
	flags.IntVar(&c.api.DiscoveryLimit, "api-discovery-limit", c.api.DiscoveryLimit, "metric names that each API group lists at most")
	flags.IntVar(&c.api.MaxInFlight, "api-max-in-flight", c.api.MaxInFlight, "API requests worked on at once, half of them with large answers")

	flags.StringVar(&c.operations.Address, "ops-address", c.operations.Address, "host:port for /livez, /readyz and /metrics")

	flags.Var(&choice{"mode", trustModes, &c.identity.Trust}, "trust", "in a cluster, whose claims are believed: open (all), namespace (a pod may speak of itself, and of objects and externals of its namespace) or strict (only of itself)")
	flags.Var(&words{&c.identity.TrustedForwarders}, "trusted-forwarders", "who may speak for others: comma-separated CIDRs, addresses, namespace/serviceaccount, or unix for the Unix sockets")
	flags.Var(&words{&c.identity.ExternalWriters}, "external-writers", "who may write external metrics that belong to no namespace: comma-separated CIDRs, addresses, namespace/serviceaccount, or unix")
	flags.Var(&words{&c.cluster.ObjectKinds}, "object-kinds", "kinds of objects beside pods that metrics may be about: they are watched, for their labels and their end")
	flags.StringVar(&c.identity.DefaultNamespace, "default-namespace", c.identity.DefaultNamespace, "without a cluster, namespace of the objects that a StatsD claim names without one")

	flags.IntVar(&c.limit.PodMetrics, "pod-metrics", c.limit.PodMetrics, "in a cluster, default limit of metrics per pod (override: LimitRange)")
	flags.IntVar(&c.limit.PodSeries, "pod-series", c.limit.PodSeries, "in a cluster, default limit of series per pod (override: LimitRange)")
	flags.IntVar(&c.limit.NamespaceMetrics, "namespace-metrics", c.limit.NamespaceMetrics, "in a cluster, default limit of metrics per namespace, not counting those of its pods (override: LimitRange)")
	flags.IntVar(&c.limit.NamespaceSeries, "namespace-series", c.limit.NamespaceSeries, "in a cluster, default limit of series per namespace, not counting those of its pods (override: LimitRange)")
	flags.Var(&words{&c.ignore}, "ignore", "names of metrics that are counted and not kept, with * for any part of them")

	flags.Var(&durations{list: &c.table.Windows}, "windows", "windows that readers may ask for, comma-separated whole seconds; each a multiple of the shortest")
	flags.DurationVar(&c.table.ExternalTTL, "external-ttl", c.table.ExternalTTL, "how long an external series lives after its last sample")
	flags.DurationVar(&c.table.ObjectTTL, "object-ttl", c.table.ObjectTTL, "how long a series of an object lives after its last sample, where no cluster says whether the object exists")
	flags.IntVar(&c.table.MaxSeries, "max-series", c.table.MaxSeries, "series that are kept at most; unset under a cgroup memory limit: at most one per 2KiB of it")
	flags.Var(newSize(&c.table.MaxBytes), "max-bytes", "memory that names, labels, aliases, timers and sets may take together; unset under a cgroup memory limit: at most 2/5 of it")

	flags.DurationVar(&c.store.FlushInterval, "flush-interval", c.store.FlushInterval, "time between two writes to the database: a killed process forgets a little more than that")
	flags.DurationVar(&c.store.SyncInterval, "sync-interval", c.store.SyncInterval, "time between two fsyncs: what a power failure forgets")
	flags.Var(newSize(&c.store.MinFreeBytes), "min-free-disk", "nothing is persisted while less of the disk is free")

	flags.Var(&choice{"level", levels, &c.log.level}, "log-level", "least level that is logged: debug, info, warn or error")
	flags.Var(&choice{"format", formats, &c.log.format}, "log-format", "text or json")

	c.flags = map[string]bool{}
	flags.VisitAll(func(flag *pflag.Flag) { c.flags[flag.Name] = true })
}
