package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/identity"
	"github.com/sluice-metrics/sluice/operations"
	"github.com/sluice-metrics/sluice/receiver"
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
	cfg        *config
	log        *slog.Logger
	registry   *prometheus.Registry
	progress   progress
	operations *early
	opsAddr    net.Addr

	table      *aggregate.Table
	ledger     *receiver.Ledger
	statsd     *receiver.Server
	store      *store.Store
	push       *push.Server
	api        *adapter.Server
	kubeconfig string
}

// wire makes the whole path and restores what was stored. What it made it gives up again where it fails.
func wire(ctx context.Context, cfg *config, log *slog.Logger) (*dataPath, error) {
	p := &dataPath{cfg: cfg, log: log, registry: newRegistry(), ledger: receiver.NewLedger()}
	for _, step := range []func(context.Context) error{
		p.checkDataFolder, p.openOperations, p.makeTable, p.openStatsD, p.openStore, p.openPush, p.openAPI, p.register,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, p.abandon())
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
	return nil
}

func (p *dataPath) makeTable(context.Context) error {
	p.table = aggregate.New(p.cfg.table, identity.New(p.cfg.identity, adapter.NewResources()).Describe, p.log)
	return nil
}

func (p *dataPath) openStatsD(context.Context) (err error) {
	p.statsd, err = receiver.New(p.cfg.receiver, p.newApplier, p.ledger, p.log)
	return p.cfg.statsdFault(err)
}

func (p *dataPath) newApplier() receiver.Applier { return p.table.NewWriter() }

func (p *dataPath) openStore(ctx context.Context) (err error) {
	p.progress.wait("restoring the store")
	began := time.Now()
	if p.store, err = store.Open(ctx, p.cfg.store, p.log, p.table); err != nil {
		return err
	}
	p.log.Info("restored", "series", p.table.Series(), "took", time.Since(began).Round(time.Millisecond), "from", p.cfg.store.Dir)
	return nil
}

func (p *dataPath) openPush(context.Context) (err error) {
	p.push, err = push.New(p.cfg.push, push.Parts{
		NewApplier: p.newApplier,
		Reader:     p.table,
		Resources:  adapter.NewResources(),
		Syncer:     p.store,
		Ledger:     p.ledger,
		Logger:     p.log,
	})
	return p.cfg.listenFault("http-address", err)
}

func (p *dataPath) openAPI(context.Context) (err error) {
	if p.api, err = adapter.New(p.cfg.api, p.table, p.log); err != nil {
		return p.cfg.listenFault("api-address", err)
	}
	ca := ""
	if p.cfg.api.CertFile == "" {
		ca = filepath.Join(p.cfg.store.Dir, caName)
	}
	p.kubeconfig, err = writeKubeconfig(p.cfg.store.Dir, reachable(p.api.Addr()), ca)
	return err
}

// run carries samples until ctx ends or a part fails, and stops in the order of the data.
func (p *dataPath) run(ctx context.Context) error {
	err := runStages(ctx, p.log, []stage{
		{"statsd", p.statsd.Run},
		{"push", p.push.Run},
		{"table", p.table.Run},
		{"store", p.runStore},
		{"api", p.api.Run},
		{"operations", p.operations.run},
	})
	if err == nil {
		p.log.Info("stopped")
	}
	return err
}

// closePatience is how long the database may take to close.
const closePatience = 10 * time.Second

func (p *dataPath) runStore(ctx context.Context) error {
	err := p.store.Run(ctx)
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
