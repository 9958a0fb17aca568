package adapter

import (
	"context"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// lookAtUsageEvery is the time between two looks of a watch. Agents report every ten seconds.
const lookAtUsageEvery = time.Second

// usageItem is an object of a list that is watched.
type usageItem struct {
	key     string // names it; another object of its name has another key
	version uint64 // of the report that it is made of
	object  func() runtime.Object
}

// watchEnds says when watches end before their clients end them.
type watchEnds struct {
	ending <-chan struct{} // of the server
	rights operandRights
}

// usageWatch sends what changes in a list: it looks at the list each second, while its client has the right to watch.
type usageWatch struct {
	list   func() []usageItem
	ends   watchEnds
	events chan watch.Event
	cancel context.CancelFunc
	sent   map[string]usageItem
}

// watchable is what watchUsage watches.
type watchable struct {
	list   func() []usageItem
	newest func() uint64                          // version of all reports
	empty  func(metav1.ObjectMeta) runtime.Object // an object, for bookmarks
	ends   watchEnds
}

// watchUsage begins a watch.
func watchUsage(ctx context.Context, options *metainternalversion.ListOptions, of watchable) (watch.Interface, error) {
	w := &usageWatch{list: of.list, ends: of.ends, events: make(chan watch.Event), sent: map[string]usageItem{}}
	from := uint64(0)
	if options != nil && options.ResourceVersion != "" {
		var err error
		if from, err = strconv.ParseUint(options.ResourceVersion, 10, 64); err != nil {
			return nil, apierrors.NewBadRequest("resourceVersion is no number")
		}
		if from > of.newest() { // of another replica, or of this one before its restart
			return nil, apierrors.NewResourceExpired("the resource version is of another replica; list again")
		}
	}
	ctx, w.cancel = context.WithCancel(ctx)
	var initial []watch.Event
	if options != nil && options.SendInitialEvents != nil && *options.SendInitialEvents {
		from = 0
		if options.AllowWatchBookmarks {
			last := of.empty(metav1.ObjectMeta{ResourceVersion: versionText(of.newest()),
				Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}})
			initial = []watch.Event{{Type: watch.Bookmark, Object: last}}
		}
	}
	liftWriteTimeout(ctx)
	go w.run(ctx, from, initial)
	return w, nil
}

func versionText(version uint64) string { return strconv.FormatUint(max(version, 1), 10) }

// Stop implements watch.Interface.
func (w *usageWatch) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *usageWatch) ResultChan() <-chan watch.Event { return w.events }

// run sends changes until ctx ends. What is of a report up to from was sent with a list.
func (w *usageWatch) run(ctx context.Context, from uint64, initial []watch.Event) {
	defer close(w.events)
	each := time.NewTicker(lookAtUsageEvery)
	defer each.Stop()
	for {
		for _, event := range append(w.changes(from), initial...) {
			select {
			case w.events <- event:
			case <-ctx.Done():
				return
			case <-w.ends.ending:
				return
			}
		}
		from, initial = 0, nil
		select {
		case <-each.C:
		case <-ctx.Done():
			return
		case <-w.ends.ending:
			return
		}
		if w.ends.rights.lost(ctx) {
			return
		}
	}
}

// changes are those since the last call, removals first.
func (w *usageWatch) changes(from uint64) (all []watch.Event) {
	now := map[string]usageItem{}
	for _, item := range w.list() {
		now[item.key] = item
	}
	for key, item := range w.sent {
		if _, still := now[key]; !still {
			all = append(all, watch.Event{Type: watch.Deleted, Object: item.object()})
		}
	}
	for key, item := range now {
		before, known := w.sent[key]
		switch {
		case !known && (from == 0 || item.version > from):
			all = append(all, watch.Event{Type: watch.Added, Object: item.object()})
		case known && before.version != item.version:
			all = append(all, watch.Event{Type: watch.Modified, Object: item.object()})
		}
	}
	w.sent = now
	return all
}

// Watch implements rest.Watcher.
func (s *derivedPods) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	list := func() (all []usageItem) {
		for _, pod := range s.pods(ctx, options) {
			if d, ok := s.derive(&pod); ok {
				version, _ := s.source.Version(pod.Node)
				key := pod.Namespace + "/" + pod.Name + "/" + pod.UID
				all = append(all, usageItem{key, version, func() runtime.Object { return &d }})
			}
		}
		return all
	}
	empty := func(m metav1.ObjectMeta) runtime.Object { return &DerivedPod{ObjectMeta: m} }
	return watchUsage(ctx, options, watchable{list, s.newest, empty, s.ends})
}

// Watch implements rest.Watcher.
func (s *derivedNodes) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	byLabels, byFields := selectorsOf(options)
	if _, err := s.list("", byLabels, byFields); err != nil {
		return nil, err
	}
	list := func() (all []usageItem) {
		nodes, _ := s.list("", byLabels, byFields)
		for i := range nodes {
			version, _ := s.source.Version(nodes[i].Name)
			all = append(all, usageItem{nodes[i].Name, version, func() runtime.Object { return &nodes[i] }})
		}
		return all
	}
	empty := func(m metav1.ObjectMeta) runtime.Object { return &DerivedNode{ObjectMeta: m} }
	return watchUsage(ctx, options, watchable{list, s.newest, empty, s.ends})
}

// newest is the version of the newest report.
func (s usageStorage) newest() uint64 {
	_, newest := s.source.Version("")
	return newest
}

// versionOf is the resource version of what a node reports.
func (s usageStorage) versionOf(node string) string {
	version, _ := s.source.Version(node)
	return versionText(version)
}
