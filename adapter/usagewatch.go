package adapter

import (
	"context"
	"iter"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// lookAtUsageEvery is the time between two looks of a watch. Agents report every ten seconds.
	lookAtUsageEvery = time.Second
	// looksWithoutReports: while no agent reports, one look of so many lists the objects, for those that ended.
	looksWithoutReports = 5
	// maxWatchedUsage bounds the objects that all watches together know. A watch keeps some 250 bytes of each, while it sends
	// changes; it makes an object of 2 KB when it sends it.
	maxWatchedUsage = 1 << 19
)

// usageKey names an object of a list that is watched. Another pod of its name has another key.
type usageKey struct{ namespace, name, uid string }

// watchBounds say when watches end before their clients end them, and what they may keep.
type watchBounds struct {
	ending <-chan struct{} // of the server
	rights operandRights
	held   *readerShares // of maxWatchedUsage
}

// usageWatch sends what changes in a list: it looks at the list each second, while its client has the right to watch.
type usageWatch struct {
	of     watchable
	reader string // who has the share
	events chan watch.Event
	cancel context.CancelFunc
	// The fields below are run's own, once it runs.
	known  map[usageKey]knownUsage
	share  int    // objects of the share
	look   int    // number of the last look that listed the objects
	newest uint64 // report of that look
	idle   int    // looks since then
}

// knownUsage is what a watch keeps of an object.
type knownUsage struct {
	version uint64 // of the report that was sent
	shown   bool   // the client has it: of a pod that uses nothing yet there is no object
	look    int    // that listed it last
}

// usageChange is a change that is to be sent.
type usageChange struct {
	usageKey
	gone    bool
	version uint64
}

// watchable is what watchUsage watches.
type watchable struct {
	list   func() iter.Seq2[usageKey, uint64]     // objects, and the versions of the reports about them
	object func(usageKey) runtime.Object          // nil: there is none
	newest func() uint64                          // version of all reports
	empty  func(metav1.ObjectMeta) runtime.Object // an object, for bookmarks and what is gone
	watchBounds
}

// watchUsage begins a watch.
func watchUsage(ctx context.Context, options *metainternalversion.ListOptions, of watchable) (watch.Interface, error) {
	w := &usageWatch{of: of, reader: shareOf(ctx), events: make(chan watch.Event), known: map[usageKey]knownUsage{}}
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
	var initial []watch.Event
	if options != nil && options.SendInitialEvents != nil && *options.SendInitialEvents {
		from = 0
		if options.AllowWatchBookmarks {
			last := of.empty(metav1.ObjectMeta{ResourceVersion: versionText(of.newest()),
				Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}})
			initial = []watch.Event{{Type: watch.Bookmark, Object: last}}
		}
	}
	changes, full := w.changes(from)
	if full != "" {
		return nil, apierrors.NewTooManyRequests(full, retryAfterSeconds)
	}
	ctx, w.cancel = context.WithCancel(ctx)
	liftWriteTimeout(ctx)
	go w.run(ctx, changes, initial)
	return w, nil
}

func versionText(version uint64) string { return strconv.FormatUint(max(version, 1), 10) }

// Stop implements watch.Interface.
func (w *usageWatch) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *usageWatch) ResultChan() <-chan watch.Event { return w.events }

// run sends changes until ctx ends.
func (w *usageWatch) run(ctx context.Context, changes []usageChange, initial []watch.Event) {
	defer close(w.events)
	defer func() { w.of.held.give(w.reader, w.share) }()
	each := time.NewTicker(lookAtUsageEvery)
	defer each.Stop()
	for full := ""; full == ""; changes, full = w.changes(0) {
		for _, change := range changes {
			if event, ok := w.event(change); ok && !w.send(ctx, event) {
				return
			}
		}
		for _, event := range initial {
			if !w.send(ctx, event) {
				return
			}
		}
		initial, changes = nil, nil
		select {
		case <-each.C:
		case <-ctx.Done():
			return
		case <-w.of.ending:
			return
		}
		if w.of.rights.lost(ctx) {
			return
		}
	}
}

// send reports whether the watch goes on.
func (w *usageWatch) send(ctx context.Context, event watch.Event) bool {
	select {
	case w.events <- event:
		return true
	case <-ctx.Done():
	case <-w.of.ending:
	}
	return false
}

// changes are those since the last call, removals first. What is of a report up to from was sent with a list. full says why
// the watch must end; empty: it goes on.
func (w *usageWatch) changes(from uint64) (all []usageChange, full string) {
	newest := w.of.newest()
	if w.idle++; w.look > 0 && newest == w.newest && w.idle < looksWithoutReports {
		return nil, ""
	}
	w.newest, w.idle = newest, 0
	w.look++
	var changed []usageChange
	for key, version := range w.of.list() {
		now, known := w.known[key]
		switch now.look = w.look; {
		case !known && version <= from:
			now.shown = w.of.object(key) != nil
		case now.version != version:
			changed = append(changed, usageChange{key, false, version})
		}
		now.version = version
		w.known[key] = now
	}
	for key, one := range w.known {
		if one.look == w.look {
			continue
		}
		if delete(w.known, key); one.shown {
			all = append(all, usageChange{key, true, one.version})
		}
	}
	return append(all, changed...), w.keepShare()
}

// keepShare takes or gives places for the objects that are known.
func (w *usageWatch) keepShare() (full string) {
	more := len(w.known) - w.share
	switch {
	case more > 0:
		full = w.of.held.take(w.reader, more, "objects of watches")
	case more < 0:
		w.of.held.give(w.reader, -more)
	}
	if full == "" {
		w.share = len(w.known)
	}
	return full
}

// event makes the object of a change; not ok: there is nothing to send.
func (w *usageWatch) event(of usageChange) (event watch.Event, ok bool) {
	now := w.known[of.usageKey]
	var object runtime.Object
	if !of.gone {
		object = w.of.object(of.usageKey)
	}
	switch had := of.gone || now.shown; {
	case object != nil && had:
		event.Type = watch.Modified
	case object != nil:
		event.Type = watch.Added
	case had:
		event.Type = watch.Deleted
		object = w.of.empty(metav1.ObjectMeta{Name: of.name, Namespace: of.namespace, ResourceVersion: versionText(of.version)})
	default:
		return event, false
	}
	if !of.gone {
		now.shown = event.Type != watch.Deleted
		w.known[of.usageKey] = now
	}
	event.Object = object
	return event, true
}

// Watch implements rest.Watcher.
func (s *derivedPods) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	list := func() iter.Seq2[usageKey, uint64] {
		return func(yield func(usageKey, uint64) bool) {
			for _, pod := range s.selected(ctx, options) {
				version, _ := s.source.Version(pod.Node)
				if version != 0 && !yield(usageKey{pod.Namespace, pod.Name, pod.UID}, version) {
					return
				}
			}
		}
	}
	object := func(of usageKey) runtime.Object {
		for _, pod := range s.source.Pods(of.namespace, of.name, labels.Everything()) {
			if d, ok := s.derive(&pod); ok && pod.UID == of.uid {
				return &d
			}
		}
		return nil
	}
	empty := func(m metav1.ObjectMeta) runtime.Object { return &DerivedPod{ObjectMeta: m} }
	return watchUsage(ctx, options, watchable{list, object, s.newest, empty, s.bounds})
}

// Watch implements rest.Watcher.
func (s *derivedNodes) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	byLabels, byFields := selectorsOf(options)
	if _, err := s.nodes("", byLabels, byFields); err != nil {
		return nil, err
	}
	list := func() iter.Seq2[usageKey, uint64] {
		return func(yield func(usageKey, uint64) bool) {
			nodes, _ := s.nodes("", byLabels, byFields)
			for i := range nodes {
				version, _ := s.source.Version(nodes[i].Name)
				if version != 0 && !yield(usageKey{name: nodes[i].Name}, version) {
					return
				}
			}
		}
	}
	object := func(of usageKey) runtime.Object {
		if one, _ := s.one(of.name); one != nil {
			return one
		}
		return nil
	}
	empty := func(m metav1.ObjectMeta) runtime.Object { return &DerivedNode{ObjectMeta: m} }
	return watchUsage(ctx, options, watchable{list, object, s.newest, empty, s.bounds})
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
