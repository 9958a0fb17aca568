package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/adapter/builtin"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/internal/footprint"
	"github.com/sluice-metrics/sluice/internal/operations"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/cgroup"
	"github.com/sluice-metrics/sluice/receiver/kubelet"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/push"
	"github.com/sluice-metrics/sluice/receiver/scrape"
	"github.com/sluice-metrics/sluice/replica/agent"
	"github.com/spf13/cobra"
)

const agentLong = `Agent receives StatsD, HTTP pushes and OTLP over HTTP on a node, and reports to a server, where the metrics are read.

Increments of a tenth of a second become one sum on the way. While no server answers, the agent goes on and keeps what it receives; then the server counts it, in the windows to which it belongs. A sample counts once, whatever is restarted.

A setting has the value of its flag; without one, that of the file named by --config; without either, its default.`

// agentConfig is the configuration of "sluice agent": the parts of a server's that an agent has, and the way to the server.
type agentConfig struct {
	*serverConfig
	link    agent.Config
	kubelet kubelet.Config
	cgroup  cgroup.Config
	// shutdownLimit bounds the time in which it goes on receiving after the signal to stop.
	shutdownLimit time.Duration
}

func defaultAgent() *agentConfig {
	c := &agentConfig{defaultConfig(), agent.DefaultConfig(), kubelet.DefaultConfig(), cgroup.Config{}, 30 * time.Second}
	c.push.Address = ""
	// It has a tenth of a server's memory: a body takes up to 64 KiB beside MaxBufferedBytes, of which a sender's share has a body
	// in both forms.
	c.push.MaxConnections, c.push.MaxConnsPerIP, c.push.MaxBufferedBytes = 512, 128, 8*int64(c.push.MaxBodyBytes)/3+1
	c.push.ReceiveBuffer = agentReceiveBuffer
	c.receiver.MaxConnections = 512 // of each listener: one of a Unix socket takes up to 72 KiB
	return c
}

// agentReceiveBuffer is the kernel's buffer of each TCP connection, which holds twice as much. Clients are on the agent's node, so a
// small one slows none down. The system's own took 125 MiB where 1,024 connections sent lines as fast as they could, and as much
// where 512 sent bodies.
const agentReceiveBuffer = 16 << 10

// agentPages bound the pages that an agent reads at once, of the pods of its node.
var agentPages = scrape.FetchLimits{AtOnce: 32, Together: 4 << 20}

// boundAgentMemory sets the limit of the Go heap to three quarters of that of the cgroup. The rest is for the kernel's buffers.
func boundAgentMemory() {
	if limit, limited := cgroupMemoryLimit("/"); limited && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit.bytes / 4 * 3)
	}
}

// completeAgent sets the fields that follow from others, and from where it runs.
func (c *agentConfig) completeAgent() {
	c.push.Dialect, c.receiver.HTTPAddress = c.statsd.dialect, c.push.Address
	c.push.MaxBufferedBytes = max(c.push.MaxBufferedBytes, 2*int64(c.push.MaxBodyBytes))
	c.receiver.Listeners = c.statsd.listeners()
	for i := range c.receiver.Listeners { // the former agent of the node ends once its clients have gone
		c.receiver.Listeners[i].TakesOver = true
		if c.receiver.Listeners[i].Network == "tcp" {
			c.receiver.Listeners[i].ReadBuffer = agentReceiveBuffer
		}
	}
	if c.link.Node == "" {
		c.link.Node = os.Getenv("NODE_NAME")
	}
	if c.link.Node == "" {
		c.link.Node, _ = os.Hostname()
	}
}

func (c *agentConfig) agentSettings() []settingGroup {
	return []settingGroup{
		{"Server", []setting{
			{"server", &c.link.Server,
				"Address (host:port) of the server's agents-address. Of several, separated by commas or behind one name, the agent reports to one, and takes another when that is silent."},
			{"node", &c.link.Node,
				"Name of this node; empty: the variable NODE_NAME, or else the host's name. A server in a cluster goes by the token."},
			{"token-file", &c.link.TokenFile,
				"Token of a service account, bound to the agent's pod, read again for each connection; empty: none."},
			{"server-ca-file", &c.link.CAFile,
				"Certificate authorities of the server's certificate, in PEM; empty: those of the system."},
			{"insecure", &c.link.Insecure,
				"Connect to the server without TLS and without a token: anyone on the way can read and change what is reported."},
			{"max-held", newSize(&c.link.MaxBytes),
				"Limit of the memory of samples that no server has on disk."},
			{"max-series", &c.link.MaxSeries,
				"Limit of the series that the agent knows."},
		}},
		c.statsdSettings(),
		{"HTTP push", []setting{
			{"http-address", &c.push.Address,
				"Address (host:port) for HTTP push to /v1, with OTLP at /v1/metrics; empty: off."},
			{"http-max-body", newSize(&c.push.MaxBodyBytes),
				"Largest body of an HTTP push, as received."},
			{"otlp-resource-attributes", &words{&c.push.OTLPResourceAttributes},
				"OpenTelemetry resource attributes that become labels, beside those that identify the object."},
			{"http-max-connections", &c.push.MaxConnections,
				"Limit of open HTTP connections. At the limit, a new connection replaces one that has been idle for longest."},
		}},
		{"Usage of pods and the node", []setting{
			{"kubelet-address", &c.kubelet.Address,
				"Address (host:port) of the node's kubelet, usually port 10250, which says what is used; empty: off."},
			{"kubelet-ca-file", &c.kubelet.CAFile,
				"Certificate authorities of the kubelet's certificate, in PEM; empty: those of the system."},
			{"kubelet-insecure-tls", &c.kubelet.InsecureTLS,
				"Take any certificate for the kubelet's: who answers in its place says what is used, and sees the token."},
			{"kubelet-token-file", &c.kubelet.TokenFile,
				"Token of a service account that may get nodes/metrics, read again for each request; empty: none."},
			{"kubelet-interval", &c.kubelet.Interval,
				"Time between two requests to the kubelet, which measures every 10 to 15 seconds."},
			{"cgroup-folder", &c.cgroup.Folder,
				"Root of the node's cgroups (v2), read each second in place of the kubelet, usually /sys/fs/cgroup of the node; empty: off."},
		}},
		{"Operations and logging", []setting{
			{"ops-address", &c.operations.Address,
				"Address (host:port) for /livez, /readyz and /metrics."},
			{"shutdown-delay", &c.shutdownDelay,
				"Least time between the signal to stop and the stop, and between the last sample and the stop. Meanwhile /readyz fails and all else goes on; a second signal ends it. 0: it stops at once."},
			{"shutdown-limit", &c.shutdownLimit,
				"Limit of the time between the signal to stop and the stop, where samples still come."},
			{"delivery-timeout", &c.link.DeliveryTimeout,
				"Time after the stop for which the agent waits until a server has on disk what it holds."},
			c.logLevel(),
			c.logFormat(),
		}},
	}
}

func newAgent() *cobra.Command {
	cfg, file := defaultAgent(), ""
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "Receive on a node, and report to a server",
		Long:    agentLong,
		Example: "  sluice agent --server sluice-agents.sluice.svc:9097 --token-file /var/run/secrets/sluice/token --server-ca-file /etc/sluice/ca.crt\n  sluice agent --server 127.0.0.1:9097 --insecure",
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			faults = append(faults, command.NoneOf(args)...)
			if file != "" {
				written, inFile := readConfigFile(file, cmd.Flags())
				cfg.written, faults = written, append(faults, inFile...)
			}
			cfg.completeAgent()
			if err := cfg.validate(faults...); err != nil {
				return err
			}
			return cfg.run(cmd)
		}),
	}
	command.UnderHeading(cmd.Flags(), "Configuration file", func() {
		cmd.Flags().StringVar(&file, "config", "", "YAML file of settings.")
	})
	cfg.bindGroups(cmd.Flags(), cfg.agentSettings())
	return cmd
}

// validate returns the faults found while the settings were read, and all others.
func (c *agentConfig) validate(faults ...error) error {
	known := faulty(faults)
	stages := []validator{&c.link, &c.receiver, &c.kubelet, &c.operations}
	if c.push.Address != "" {
		stages = append(stages, &c.push)
	}
	for _, stage := range stages {
		for _, fault := range config.Split(stage.Validate()) {
			if worded, _ := c.word(stage, fault); !known[faultySetting(worded)] {
				faults = append(faults, worded)
			}
		}
	}
	if c.cgroup.Folder != "" && c.kubelet.Address != "" {
		faults = append(faults, c.fault("cgroup-folder", "is set, and so is %s; one must be empty: one source says what is used",
			c.as("kubelet-address")))
	}
	if c.shutdownDelay < 0 {
		faults = append(faults, c.fault("shutdown-delay", "is %v; must not be negative", c.shutdownDelay))
	}
	if c.shutdownLimit < c.shutdownDelay {
		faults = append(faults, c.fault("shutdown-limit", "is %v; must be at least %s (%v)", c.shutdownLimit,
			c.as("shutdown-delay"), c.shutdownDelay))
	}
	return command.Usage(faults...)
}

// run runs until the first signal and the shutdown delay after it, or until a part fails.
func (c *agentConfig) run(cmd *cobra.Command) error {
	ctx, release := untilSignal(cmd.Context())
	defer release()
	log := newLogger(cmd.ErrOrStderr(), c.log)
	agent.QuietGRPC()
	collector, accounts, registry := agent.NewCollector(c.link), ledger.New(), newRegistry()
	link, err := agent.NewLink(c.link, sluice.Version, collector, log)
	if err != nil {
		return err
	}
	stages, err := c.measure(ctx, link, registry, log)
	if err != nil {
		return err
	}
	fetcher := c.scrapeFor(link)
	defer fetcher.Close()
	lines, receivers, err := c.receive(collector, accounts, registry, log)
	if err != nil {
		return err
	}
	defer lines.Close()
	var state progress
	state.done()
	defer context.AfterFunc(ctx, state.stop)()
	checks := append([]operations.Check{{Name: "start", State: state.state}}, link.Checks()...)
	ops, err := operations.Listen(c.operations, checks, registry, log)
	if err != nil {
		return c.listenFault("ops-address", err)
	}
	if err := errors.Join(registry.Register(accounts), registry.Register(link), ops.Register(registry)); err != nil {
		return err
	}
	tuneCollector()
	boundAgentMemory()
	log.Info("receiving", "statsd", fmt.Sprint(lines.Addrs()), "http", c.push.Address, "node", c.link.Node,
		"server", c.link.Server, "ops", ops.Addr().String())
	ctx, delayed := c.afterTraffic(ctx, accounts, lines.Part, log)
	defer delayed()
	stages = append(append(receivers, stages...), stage{"server", link.Run}, stage{"footprint", footprint.Run},
		stage{"operations", ops.Run})
	return runStages(ctx, log, stages)
}

// receive binds all that receives, and returns the lines' receiver, with the stages of all.
func (c *agentConfig) receive(into *agent.Collector, accounts *ledger.Ledger, registry *prometheus.Registry,
	log *slog.Logger) (*receiver.Server, []stage, error) {
	senders := new(agent.Senders)
	lines, err := receiver.New(c.receiver, receiver.Parts{
		NewApplier: func() receiver.LineApplier { return into.NewApplier() },
		Senders:    senders, Ledger: accounts, Logger: log,
	})
	if err != nil {
		return nil, nil, c.statsdFault(err)
	}
	stages := []stage{{"statsd", lines.Run}}
	if c.push.Address == "" {
		return lines, stages, nil
	}
	pushes, err := push.NewSamplesOnly(c.push, push.Parts{
		NewApplier: func() push.Applier { return into.NewApplier() },
		Senders:    senders, Resources: builtin.New(), Freshen: lines.Freshen, Ledger: accounts, Logger: log,
	})
	if err != nil {
		lines.Close()
		return nil, nil, c.pushFault(err)
	}
	run := func(ctx context.Context) error { return pushes.Run(ctx, nil) }
	return lines, append(stages, stage{"push", run}), pushes.Register(registry)
}

// measure prepares what reads what is used, if it is on: until the signal to stop.
func (c *agentConfig) measure(ctx context.Context, link *agent.Link, registry *prometheus.Registry,
	log *slog.Logger) ([]stage, error) {
	source, err := c.usageSource()
	if err != nil || source.Read == nil {
		return nil, err
	}
	used := agent.NewUsage(source, log)
	link.Tell(used)
	context.AfterFunc(ctx, used.EndMeasuring)
	return []stage{{"usage", used.Run}}, registry.Register(used)
}

func (c *agentConfig) usageSource() (agent.UsageSource, error) {
	if c.cgroup.Folder != "" {
		files, err := cgroup.New(c.cgroup)
		if err != nil {
			return agent.UsageSource{}, c.fault("cgroup-folder", "%v", err)
		}
		return agent.UsageSource{Name: "the cgroup folder", Read: files.Read, Interval: cgroup.Interval}, nil
	}
	if c.kubelet.Address == "" {
		return agent.UsageSource{}, nil
	}
	client, err := kubelet.NewClient(c.kubelet)
	if err != nil {
		return agent.UsageSource{}, err
	}
	return agent.UsageSource{Name: "the kubelet", Read: client.Read, Interval: c.kubelet.Interval}, nil
}

// scrapeFor has a link scrape what servers tell.
func (c *agentConfig) scrapeFor(link *agent.Link) *scrape.Fetcher {
	scrapes := agent.NewScrape()
	loopback := c.link.Loopback()
	fetcher := scrape.NewFetcher(scrape.FetchParts{
		// The server knows who holds an address, and takes the target back once it is another pod.
		Holds: func(t *metric.ScrapeTarget) bool { return scrape.IsPods(t.Address, loopback) },
		Agent: "sluice/" + sluice.Version, Fetched: scrapes.Fetched,
		Limits: agentPages,
	})
	scrapes.By(fetcher)
	link.Scrape(scrapes)
	return fetcher
}
