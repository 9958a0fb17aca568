package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/builtin"
	"github.com/sluice-metrics/sluice/adapter/console"
	"github.com/sluice-metrics/sluice/adapter/customkind"
	"github.com/sluice-metrics/sluice/adapter/export/otlp"
	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/adapter/keda"
	"github.com/sluice-metrics/sluice/adapter/route"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/limit"
	"github.com/sluice-metrics/sluice/internal/operations"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/identity"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/push"
	"github.com/sluice-metrics/sluice/receiver/relay"
	"github.com/sluice-metrics/sluice/receiver/scrape"
	"github.com/sluice-metrics/sluice/replica/agents"
	"github.com/sluice-metrics/sluice/store"
)

// dataPath is the way of a sample, with the goroutines (×) that carry it:
//
//	udp      × sockets ─┐
//	unixgram × 1        ├─ receiver ──┐                       ┌─ adapter × requests ◄── HPA, kubectl, sluice get
//	tcp      × conns    │             ├─► aggregate.Table ────┤
//	unix     × conns   ─┘             │     ▲   × 1 roller    └─ push × requests ◄───── GET /v1/…
//	http     × requests ── push ──────┤     │
//	pods     × endpoints ─ scrape ────┘     │
//	                                        ▼
//	                     identity ◄─ describe (once     store × 3 (flush, sync, watch) ─► Badger ─► disk
//	                                 per new line)
//
// The goroutine that reads a socket also parses and applies: there is no channel and no queue. The
// operations port × requests stands beside the path, and so does the view of a cluster
// (cluster.go).
//
// wire makes the parts in the order of need, and this file has them in that order. The operations
// port is first, so that /readyz answers during the start. The store fills the table; then come the
// StatsD sockets and the ports that answer from it. stages.go stops the parts in the order of the data.
type dataPath struct {
	cfg        *serverConfig
	log        *slog.Logger
	registry   *prometheus.Registry
	progress   progress
	operations *earlyStage
	opsAddr    net.Addr

	cluster     clusterSide
	replication replication
	rules       *customkind.Rulebook
	resolver    *identity.Resolver
	senders     *record.Senders
	pushers     *record.Pushers
	rejections  *record.Rejections
	table       *aggregate.Table
	merged      *aggregate.Merged
	ledger      *ledger.Ledger
	relay       *relay.Relay   // nil: off
	otlp        *otlp.Exporter // nil: off
	statsd      *receiver.Server
	store       *store.Store
	restored    time.Time // all that the table has from before was received before
	groups      *group.Groups
	push        *push.Server
	routes      *route.Router // of external metrics to other providers; nil: none
	api         *adapter.Server
	console     *console.Server           // nil: off
	viewers     *credential.Authenticator // of the console; nil: it asks nobody who they are
	scraper     *scrape.Scraper           // nil: off
	agents      *agents.Server            // nil: off
	usage       *clusterUsage             // nil: metrics.k8s.io is not served
	keda        *keda.Server              // nil: off
	kubeconfig  string
}

// errStopped: the context ended before all parts were made.
var errStopped = errors.New("stopped before the start was complete")

// wire makes the whole path and restores the table. If a step fails, the parts already made are
// closed. If the cause is the end of ctx, the error is errStopped.
func wire(ctx context.Context, cfg *serverConfig, log *slog.Logger) (*dataPath, error) {
	p := &dataPath{cfg: cfg, log: log, registry: newRegistry(), ledger: ledger.New()}
	for _, step := range []func(context.Context) error{
		p.checkDataFolder,
		p.nameReplica,
		p.checkCertificate,
		p.openOperations,
		p.readRules,
		p.connect,
		p.readRoutes,
		p.makeTable,
		p.openBus,
		p.openStore,
		p.keepReplicaName,
		p.openStatsD,
		p.openReplica,
		p.openScraper,
		p.openPush,
		p.openAPI,
		p.openAgents,
		p.openKEDA,
		p.openConsole,
		p.register,
	} {
		if err := step(ctx); err != nil {
			abandoned := p.abandon()
			if abandoned == nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil, errStopped
			}
			return nil, errors.Join(append([]error{err, abandoned}, cfg.otherBusyPorts(err)...)...)
		}
	}
	p.progress.done()
	return p, nil
}

func (p *dataPath) openOperations(ctx context.Context) error {
	server, err := operations.Listen(p.cfg.operations, p.checks(), p.registry, p.log)
	if err != nil {
		return p.cfg.listenFault("ops-address", err)
	}
	p.opsAddr = server.Addr()
	p.operations = startEarly(ctx, server.Run)
	return server.Register(p.registry)
}

// readRules reads rules-file, before anything else can fail for a longer time.
func (p *dataPath) readRules(context.Context) (err error) {
	p.rules, err = customkind.NewRulebook(p.cfg.rulesFile, p.log)
	switch pathError := new(fs.PathError); {
	case errors.As(err, &pathError):
		return p.cfg.fault("rules-file", "cannot be read: %v", err)
	case err != nil:
		return p.cfg.fault("rules-file", "is invalid: %v", err)
	}
	return nil
}

func (p *dataPath) makeTable(context.Context) error {
	ignored, err := limit.ParsePatterns(p.cfg.ignore)
	if err != nil {
		return err
	}
	p.resolver = p.identify()
	p.senders = record.NewSenders()
	p.pushers = record.NewPushers()
	p.rejections = record.NewRejections(p.senders)
	describe := p.describe()
	p.table = aggregate.New(p.cfg.table, func(s *metric.Sample, d *metric.Description) metric.Reason {
		p.senders.HeardLine(s.Sender)
		if ignored.Match(metric.Borrow(s.Name)) {
			return metric.Ignored
		}
		reason := describe(s, d)
		if reason == metric.Applied {
			p.pushers.Pushed(s.Sender, d.Object.Namespace, s.Name)
			p.senders.Described(s.Sender, &d.Object)
		}
		return reason
	}, p.log)
	p.merged = aggregate.NewMerged(p.table)
	p.rules.Pushed = p.pushedSomewhere
	p.groups = group.New(p.cfg.groupBounds(), p.merged)
	p.joinCluster()
	p.replicate()
	return nil
}

func (p *dataPath) openStore(ctx context.Context) (err error) {
	p.progress.wait("restoring the store")
	began := time.Now()
	parts := store.Parts{Table: p.table, Documents: p.storedDocuments(), Logger: p.log}
	if p.replication.bus != nil {
		parts.Publisher = &p.replication
	}
	if p.store, err = store.Open(ctx, p.cfg.store, parts); err != nil {
		return p.storeFault(err)
	}
	ungrouped := p.groups.RestoreDone()
	p.restored = time.Now()
	p.log.Info("restored", "series", p.table.Series(), "took", time.Since(began).Round(time.Millisecond),
		"from", p.cfg.store.Dir, "groups", p.groups.Count(), "ungrouped", ungrouped)
	return nil
}

// openStatsD opens the first sockets that receive. Datagrams that waited in them for the restore would be a
// burst, or those lost a dip: it is part of the outage (docs/adr/0003).
func (p *dataPath) openStatsD(context.Context) (err error) {
	parts := receiver.Parts{
		NewApplier: func() receiver.LineApplier { return p.table.NewWriter() },
		Ledger:     p.ledger, Logger: p.log, Explain: p.whyRejected, Rejections: p.rejections,
	}
	if p.cluster.view != nil {
		parts.Senders, parts.Pending = p.cluster.view, p.cluster.pending
	}
	if p.cfg.relay.Enabled() {
		if p.relay, err = relay.New(p.cfg.relay, p.log); err != nil {
			return err
		}
		parts.Relay = p.relay
	}
	p.table.Begin()
	p.statsd, err = receiver.New(p.cfg.receiver, parts)
	return p.cfg.statsdFault(err)
}

func (p *dataPath) openPush(context.Context) (err error) {
	parts := push.Parts{
		NewApplier: func() push.Applier { return p.table.NewWriter() },
		Reader:     p.reader(),
		Series:     p.exportSource(),
		Lister:     p.inspection(),
		Histograms: p.cfg.table.Histograms,
		Resources:  builtin.New(),
		Syncer:     p.store,
		Replicas:   p.syncedReplicas(),
		Answers:    p.readable(),
		Groups:     p.groups,
		Build:      buildInformation(),
		Full:       p.cfg.seriesBounds(),
		KindOf:     p.kindOf,
		Freshen:    p.statsd.Freshen,
		Worded:     p.cfg.pushFault,
		Ledger:     p.ledger,
		Logger:     p.log,
		Record:     p.senders,
		Rejections: p.rejections,
	}
	if view := p.cluster.view; view != nil {
		parts.Resources, parts.Senders, parts.Alive = view, view, view.Alive
		parts.Trust, parts.Pending = trust{p.resolver, p.cluster.limits}, p.cluster.pending
		parts.Pods, parts.Policies, parts.Requirements = view, p.cluster.policies, adapter.Requirements
		if parts.Authority, err = adapter.NewAccounts(p.cluster.client.REST(), p.cfg.push.TokenAudience, p.cluster.view); err != nil {
			return err
		}
	}
	if p.cfg.otlp.Enabled() {
		if p.otlp, err = otlp.New(p.cfg.otlp, parts.Series, p.exports, p.log); err != nil {
			worded, _ := p.cfg.word(&p.cfg.otlp, err)
			return worded
		}
	}
	p.push, err = push.New(p.cfg.push, parts)
	return p.cfg.pushFault(err)
}

func (p *dataPath) openAPI(context.Context) (err error) {
	parts := adapter.Parts{Source: p.reader(), Inspect: p.inspection(), Ready: p.answers, Logger: p.log}
	if p.cluster.view != nil {
		parts.Cluster, parts.API = p.cluster.view, p.cluster.client.REST()
		parts.Policies, parts.Routes = p.cluster.policies, p.routes
		if p.usage != nil {
			parts.Usage = p.usage
		}
	}
	if p.api, err = adapter.New(p.cfg.api, parts); err != nil {
		return p.cfg.listenFault("api-address", err)
	}
	if !p.cfg.standalone {
		return nil
	}
	return p.keepKubeconfig()
}
