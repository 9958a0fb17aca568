package httpserver

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"
)

// Sync is what an answer waits for.
type Sync uint8

const (
	NoSync   Sync = iota
	SyncDisk      // until all that was applied is on disk
	SyncAll       // until, in addition, every live replica has it
)

// ParseSync parses the parameter sync.
func ParseSync(text string) (s Sync, ok bool) {
	switch text {
	case "false":
		return NoSync, true
	case "true":
		return SyncDisk, true
	case "all":
		return SyncAll, true
	}
	return NoSync, false
}

// Syncer waits until all samples applied before the call are on disk.
type Syncer interface {
	Sync(ctx context.Context) error
}

// Replicas are this process and the others that answer for it.
type Replicas interface {
	// Name is the name of this replica.
	Name() string
	// SyncAll waits until every live replica has all that was applied here before the call. The
	// error names those that have not answered.
	SyncAll(ctx context.Context) error
	// SyncDeletion waits, in addition, until no live replica has what others removed because of deletions here
	// before the call.
	SyncDeletion(ctx context.Context) error
	// HearDocuments waits until this replica has the groups and deletions that every live replica had
	// before the call. The error names those that were not heard.
	HearDocuments(ctx context.Context) error
}

// Sync waits for the disk and, for SyncAll, for the replicas, also for requests in flight at
// shutdown.
func (x *Request) Sync(sync Sync) *Fault { return x.sync(sync, Replicas.SyncAll) }

// SyncDeletion is Sync for a deletion of series.
func (x *Request) SyncDeletion(sync Sync) *Fault { return x.sync(sync, Replicas.SyncDeletion) }

func (x *Request) sync(sync Sync, all func(Replicas, context.Context) error) *Fault {
	s := x.server
	ctx, cancel := context.WithTimeout(s.life, s.cfg.SyncTimeout)
	defer cancel()
	if s.replicas != nil {
		x.replica = s.replicas.Name()
		x.HTTP.Response.Header.Set(replicaHeader, x.replica)
	}
	var elsewhere chan error
	if sync == SyncAll && s.replicas != nil { // both wait for the same flush
		elsewhere = make(chan error, 1)
		go func() { elsewhere <- all(s.replicas, ctx) }()
	}
	if err := s.syncer.Sync(ctx); err != nil {
		return unsynced("it was applied and is served, but it is not on disk: " + err.Error())
	}
	if elsewhere == nil {
		return nil
	}
	if err := <-elsewhere; err != nil {
		return unsynced("it is on disk here, but not at every replica: " + err.Error())
	}
	return nil
}

// HearReplicas waits for the groups and deletions of the other replicas. The error names those that were
// not heard.
func (x *Request) HearReplicas() error {
	s := x.server
	if s.replicas == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.life, s.cfg.SyncTimeout)
	defer cancel()
	return s.replicas.HearDocuments(ctx)
}

// replicaHeader of an answer names the replica that took a push. Answers in JSON name it too.
const replicaHeader = "Sluice-Replica"

// Replica is the replica that has the push on disk, after Sync; empty: there are no others.
func (x *Request) Replica() string { return x.replica }

func unsynced(message string) *Fault {
	return &Fault{Status: fasthttp.StatusServiceUnavailable, Reason: "sync", Message: message}
}

// CheckSync rejects ?sync=true if nothing is stored.
func (x *Request) CheckSync(sync Sync) *Fault {
	if sync == NoSync || x.server.syncer != nil {
		return nil
	}
	return &Fault{
		Status: fasthttp.StatusBadRequest, Reason: "sync", Uncounted: true,
		Message: "sync is true, but this server stores nothing on disk; nothing was done",
	}
}

// PersistTimeout bounds how long a page waits until its totals are on disk.
const PersistTimeout = 5 * time.Second

// Unpersisted makes the fault of a page whose totals aren't on disk.
func Unpersisted(err error) *Fault {
	return &Fault{
		Status: fasthttp.StatusServiceUnavailable, Reason: "sync", Uncounted: true,
		Message: "totals that are not on disk are not exposed, because a crash would take them back: " + err.Error(),
	}
}
