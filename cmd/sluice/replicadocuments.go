package main

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/replica"
	"github.com/sluice-metrics/sluice/replica/deletion"
)

// sharedDocuments joins the documents that replicas exchange: groups and deletions. The first byte
// of a key says which.
type sharedDocuments struct {
	groups    *group.Groups
	deletions *deletion.Log
	// flushSoon publishes what documents removed from the table.
	flushSoon func()
	log       *slog.Logger
	loggedAt  atomic.Int64 // Unix nanoseconds
}

const (
	groupKey    = 'g'
	deletionKey = 'd'
)

// TakeChanged implements replica.Documents.
func (d *sharedDocuments) TakeChanged() []replica.Document {
	return joinDocuments(d.groups.TakeShared(), d.deletions.TakeShared())
}

// All implements replica.Documents.
func (d *sharedDocuments) All() []replica.Document {
	return joinDocuments(d.groups.AllShared(), d.deletions.AllShared())
}

func joinDocuments(groups []group.Document, deletions []deletion.Document) []replica.Document {
	all := make([]replica.Document, 0, len(groups)+len(deletions))
	for _, one := range groups {
		all = append(all, replica.Document{Key: keyText(groupKey, one.Key), Stamp: one.Stamp, Value: one.Value})
	}
	for _, one := range deletions {
		all = append(all, replica.Document{Key: keyText(deletionKey, one.Key), Stamp: one.Stamp, Value: one.Value})
	}
	return all
}

func keyText(what byte, key [16]byte) string { return string(append([]byte{what}, key[:]...)) }

// Apply implements replica.Documents. Keys of unknown documents belong to a later version.
func (d *sharedDocuments) Apply(origin string, all []replica.Document) {
	var groups []group.Document
	var deletions []deletion.Document
	for _, one := range all {
		var key [16]byte
		if len(one.Key) != 1+len(key) {
			continue
		}
		copy(key[:], one.Key[1:])
		switch one.Key[0] {
		case groupKey:
			groups = append(groups, group.Document{Key: key, Stamp: one.Stamp, Value: one.Value})
		case deletionKey:
			deletions = append(deletions, deletion.Document{Key: key, Stamp: one.Stamp, Value: one.Value})
		}
	}
	before := d.groups.Removals() + d.deletions.Removals()
	for _, err := range []error{d.groups.Apply(groups), d.deletions.Apply(deletions)} {
		if err != nil {
			d.warn(origin, err)
		}
	}
	if d.groups.Removals()+d.deletions.Removals() != before {
		d.flushSoon()
	}
}

// warn logs once a minute.
func (d *sharedDocuments) warn(origin string, err error) {
	now := time.Now().UnixNano()
	if last := d.loggedAt.Load(); now-last >= int64(time.Minute) && d.loggedAt.CompareAndSwap(last, now) {
		d.log.Warn("a document of another replica was not applied", "origin", origin, "error", err)
	}
}
