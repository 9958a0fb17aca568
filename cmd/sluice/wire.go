package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/identity"
	"github.com/sluice-metrics/sluice/limit"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/operations"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/push"
	"github.com/sluice-metrics/sluice/store"
)

// The data path, with the goroutines (×) that carry it:
//
//	udp      × sockets ─┐
//	unixgram × 1        ├─ receiver ──┐                       ┌─ adapter × requests ◄── HPA, kubectl, sluice get
//	tcp      × conns    │             ├─► aggregate.Table ────┤
//	unix     × conns   ─┘             │     ▲   × 1 roller    └─ push × requests ◄───── GET /v1/…
//	http     × requests ── push ──────┘     │
//	                                        ▼
//	                     identity ◄─ describe (once     store × 3 (flush, sync, watch) ─► Badger ─► disk
//	                                 per new line)
//
// The goroutine that reads a socket parses and applies: no channel, no queue. Beside the path stands the
// operations port × requests.
//
// The data folder is looked at before any port is opened. Made in the order of need: the operations port
// first, so that who asks sees what is waited for; the
// StatsD sockets next, so that what arrives while the store restores waits in the kernel; then the store,
// which fills the table; then what answers from it. Stopped in the order of the data: sockets, table,
// store, API, operations.
type dataPath struct {
	cfg        *serverConfig
	log        *slog.Logger
	registry   *prometheus.Registry
	progress   progress
	operations *early
	opsAddr    net.Addr

	cluster    clusterSide
	resolver   *identity.Resolver
	table      *aggregate.Table
	ledger     *ledger.Ledger
	statsd     *receiver.Server
	store      *store.Store
	groups     *group.Groups
	push       *push.Server
	api        *adapter.Server
	kubeconfig string
}

// errStopped: the end was asked for before all parts were made.
var errStopped = errors.New("stopped before the start was complete")

// wire makes the whole path and restores what was stored. What it made it gives up again where it fails, or where ctx
// ends first: its error is then errStopped.
func wire(ctx context.Context, cfg *serverConfig, log *slog.Logger) (*dataPath, error) {
	p := &dataPath{cfg: cfg, log: log, registry: newRegistry(), ledger: ledger.New()}
	for _, step := range []func(context.Context) error{
		p.checkDataFolder, p.checkCertificate, p.openOperations, p.connect, p.makeTable, p.openStatsD, p.openStore, p.openPush, p.openAPI, p.register,
	} {
		if err := step(ctx); err != nil {
			abandoned := p.abandon()
			if abandoned == nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil, errStopped
			}
			return nil, errors.Join(append([]error{err, abandoned}, p.cfg.otherBusyPorts(err)...)...)
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

func (p *dataPath) makeTable(context.Context) error {
	ignored, err := limit.ParsePatterns(p.cfg.ignore)
	if err != nil {
		return err
	}
	p.resolver = p.identify()
	p.table = aggregate.New(p.cfg.table, func(s *metric.Sample, d *metric.Description) metric.Reason {
		if ignored.Match(metric.Borrow(s.Name)) {
			return metric.Ignored
		}
		return p.resolver.Describe(s, d)
	}, p.log)
	p.groups = group.New(p.cfg.groupBounds(), exactly{p.table})
	p.joinCluster()
	return nil
}

func (p *dataPath) openStatsD(context.Context) (err error) {
	parts := receiver.Parts{NewApplier: p.newApplier, Ledger: p.ledger, Logger: p.log, Explain: p.resolver.Explain}
	if p.cluster.view != nil {
		parts.Senders, parts.Pending = p.cluster.view, p.cluster.pending
	}
	p.statsd, err = receiver.New(p.cfg.receiver, parts)
	return p.cfg.statsdFault(err)
}

// The receiver finds LineCache by a type assertion, which would fail silently.
var _ receiver.LineCache = (*aggregate.Writer)(nil)

func (p *dataPath) newApplier() receiver.Applier { return p.table.NewWriter() }

func (p *dataPath) openStore(ctx context.Context) (err error) {
	p.progress.wait("restoring the store")
	began := time.Now()
	if p.store, err = store.Open(ctx, p.cfg.store, store.Parts{Table: p.table, Documents: documents{p.groups, p.cluster.pushed}, Logger: p.log}); err != nil {
		return p.storeFault(err)
	}
	p.log.Info("restored", "series", p.table.Series(), "took", time.Since(began).Round(time.Millisecond), "from", p.cfg.store.Dir, "groups", p.groups.Count())
	return nil
}

func (p *dataPath) openPush(context.Context) (err error) {
	parts := push.Parts{
		NewApplier: p.newApplier,
		Reader:     p.table,
		Resources:  adapter.NewResources(),
		Syncer:     p.store,
		Groups:     p.groups,
		Build:      buildInformation(),
		Full:       p.cfg.seriesBounds(),
		Worded:     p.cfg.pushFault,
		Ledger:     p.ledger,
		Logger:     p.log,
	}
	if view := p.cluster.view; view != nil {
		parts.Resources, parts.Senders, parts.Alive = view, view, view.Alive
		parts.Trust, parts.Pending = trust{p.resolver, p.cluster.book}, p.cluster.pending
		parts.Pods = view
		if parts.Authority, err = adapter.NewAccounts(p.cluster.client.REST(), p.cfg.push.TokenAudience); err != nil {
			return err
		}
	}
	p.push, err = push.New(p.cfg.push, parts)
	return p.cfg.pushFault(err)
}

func (p *dataPath) openAPI(context.Context) (err error) {
	parts := adapter.Parts{Source: p.table, Logger: p.log}
	if p.cluster.view != nil {
		parts.Cluster, parts.API, parts.Ready = p.cluster.view, p.cluster.client.REST(), p.cluster.state
		parts.Workloads = p.cluster.pushed
	}
	if p.api, err = adapter.New(p.cfg.api, parts); err != nil {
		return p.cfg.listenFault("api-address", err)
	}
	if !p.cfg.standalone {
		return nil
	}
	return p.keepKubeconfig()
}

// run carries samples until ctx ends or a part fails, and stops in the order of the data.
func (p *dataPath) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.progress.stop)()
	err := runStages(ctx, p.log, p.stages())
	if err == nil {
		p.log.Info("stopped")
	}
	return err
}

// stages are the parts that run, in the order of the data, which is that of stopping.
func (p *dataPath) stages() []stage {
	all := []stage{{"statsd", p.statsd.Run}, {"push", p.push.Run}}
	if p.cluster.view != nil {
		all = append(all, stage{"pending", p.cluster.pending.Run})
	}
	all = append(all, stage{"groups", p.groups.Run}, stage{"table", p.table.Run}, stage{"store", p.runStore}, stage{"api", p.api.Run})
	if p.cluster.view != nil {
		all = append(all, stage{"limits", p.cluster.book.Run}, stage{"cluster", p.runCluster})
	}
	return append(all, stage{"operations", p.operations.run})
}

// closePatience is how long the database may take to close.
const closePatience = 10 * time.Second

// runStore does not wait a second time for a disk that does not answer.
func (p *dataPath) runStore(ctx context.Context) error {
	err := p.store.Run(ctx)
	if errors.Is(err, store.ErrStalled) {
		ended, end := context.WithCancel(context.Background())
		end()
		_ = p.store.Close(ended) // its error says less than the first one
		return err
	}
	return errors.Join(err, p.closeStore())
}

func (p *dataPath) closeStore() error {
	patience, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	return p.store.Close(patience)
}

// abandon gives up what was made before a step failed.
func (p *dataPath) abandon() error {
	ended, end := context.WithCancel(context.Background())
	end()
	var faults []error
	if p.statsd != nil {
		p.statsd.Close()
	}
	if p.push != nil {
		faults = append(faults, p.push.Run(ended))
	}
	if p.store != nil {
		faults = append(faults, p.closeStore())
	}
	if p.operations != nil {
		faults = append(faults, p.operations.run(ended))
	}
	return errors.Join(faults...)
}

// binary is how this process was called, for commands to copy.
func binary() string {
	if len(os.Args) > 0 && os.Args[0] != "" {
		return os.Args[0]
	}
	return "sluice"
}
