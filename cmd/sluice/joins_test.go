package main

import (
	"iter"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/rollup"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/store"
)

// oneWorkload is a cluster whose pods are all of one.
type oneWorkload struct{}

func (oneWorkload) Workload(metric.Object) (metric.Workload, bool, bool) {
	return metric.Workload{Kind: "Deployment", Name: "web", UID: "d"}, true, true
}
func (oneWorkload) Owner(workload metric.Workload) (metric.Workload, bool) { return workload, true }
func (oneWorkload) Workloads() iter.Seq[metric.Workload]                   { return func(func(metric.Workload) bool) {} }

// Documents of workloads are kept beside those of groups. A standalone server skips those that a
// cluster's server has left.
func TestDocumentsOfWorkloads(t *testing.T) {
	groups := func() *group.Groups {
		return group.New(group.DefaultConfig(), aggregate.NewMerged(new(aggregate.Table)))
	}
	written := documents{groups: groups(), workloads: rollup.NewTracker(oneWorkload{})}
	written.workloads.SeriesCreated(&metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}, "hits", metric.Counter, metric.Labels{})
	keys := written.Changed(false)
	if len(keys) != 1 || len(written.Changed(false)) != 0 || len(written.Changed(true)) != 1 {
		t.Fatalf("changed: %x, want one once", keys)
	}
	value, there := written.AppendDocument(nil, keys[0])
	if !there {
		t.Fatal("no document")
	}
	back := documents{groups: groups(), workloads: rollup.NewTracker(oneWorkload{})}
	must(t, back.RestoreDocument(keys[0], value))
	if kind := back.workloads.PushedKind("shop", metric.Workload{UID: "d"}, "hits", nil); kind != metric.Counter {
		t.Errorf("hits: %s, want a counter", kind)
	}
	standalone := documents{groups: groups()}
	if err := standalone.RestoreDocument(keys[0], value); err != nil {
		t.Errorf("standalone: %v", err)
	}
	if _, there := standalone.AppendDocument(nil, keys[0]); there || standalone.groups.Count() != 0 {
		t.Error("standalone has it for a group")
	}
}

// Documents of namespaces are read back, and damaged ones are refused. One that is gone has its document until it is
// forgotten; a standalone server skips those that a cluster's server has left.
func TestDocumentsOfNamespaces(t *testing.T) {
	written, back := newNamespaces(), documents{namespaces: newNamespaces()}
	written.added(metric.Object{Resource: "namespaces", Name: "shop", UID: "1"})
	written.added(metric.Object{Resource: "services", Namespace: "shop", Name: "web", UID: "2"})
	key, changed := namespaceKey("shop"), written.following(false)
	if len(changed) != 1 || len(written.following(false)) != 0 || len(written.following(true)) != 1 {
		t.Fatalf("changed: %q, want one once", changed)
	}
	value := changed[key]
	for i := 1; i <= len(value); i++ {
		if err := back.RestoreDocument(key, value[:i]); (err == nil) != (i == len(value)) {
			t.Errorf("%d of %d bytes: %v", i, len(value), err)
		}
	}
	if back.RestoreDocument(store.DocumentKey{}, value) == nil {
		t.Error("a document under another's key was read")
	}
	if uids, ended := back.namespaces.all(); len(uids) != 1 || uids["shop"] != "1" || len(ended) != 0 {
		t.Errorf("read back: %v, ended %v", uids, ended)
	}
	if err := (documents{}).RestoreDocument(key, value); err != nil {
		t.Errorf("standalone: %v", err)
	}
	written.set("shop", "")
	value = written.following(false)[key]
	if back.RestoreDocument(key, value[:len("N\x01shop\x001\x00")]) == nil {
		t.Errorf("the document of a namespace that is gone: %q", value)
	}
	must(t, back.RestoreDocument(key, value))
	_, since := written.all()
	if uids, ended := back.namespaces.all(); uids["shop"] != "1" || !ended["shop"].Equal(since["shop"].Truncate(time.Second)) {
		t.Errorf("read back: %v, ended %v, want %v", uids, ended, since)
	}
	written.set("shop", "")
	if forgotten := written.following(false); len(forgotten) != 1 || forgotten[key] != nil {
		t.Errorf("a namespace that is forgotten has a document: %q", forgotten)
	}
}
