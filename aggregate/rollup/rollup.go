package rollup

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// MayRollUp reports whether the objects of a query may be answered by their pods, if they have no
// series of their own.
func MayRollUp(q *metric.Query) bool {
	return q.Namespace != "" && q.Resource != "" && q.Resource != podResource
}

// rolledUp answers a query. Objects without a series of their own are answered by their pods' series;
// an own series answers alone, also where it has no value. The query is passed by value: one that an own
// series answers is not copied to the heap.
func (m *Moment) rolledUp(q metric.Query) ([]metric.Point, error) {
	switch {
	case q.RollUp != nil:
		return m.rolledUpPods(q)
	case q.Object == metric.AllObjects:
		return m.rolledUpList(q)
	}
	own, asked := metric.NoKind, q
	asked.Kind = &own
	points, err := m.snapshot.Objects(asked)
	if q.Kind != nil && own != metric.NoKind {
		*q.Kind = own
	}
	if err == nil || own != metric.NoKind || !errors.Is(err, metric.ErrNotFound) {
		return points, err
	}
	return m.rolledUpObject(q, err)
}

// rolledUpPods answers a query with a RollUp.
func (m *Moment) rolledUpPods(q metric.Query) ([]metric.Point, error) {
	ready, live := m.reader.readyPods(&q)
	p, err := m.rollUp(q, ready, live)
	return asList(p, err)
}

// rolledUpObject answers a query for one object that has no series of its own; absent says so.
func (m *Moment) rolledUpObject(q metric.Query, absent error) ([]metric.Point, error) {
	owners, err := m.selectedOwners(&q)
	if err != nil || len(owners) == 0 {
		return nil, cmp.Or(err, absent)
	}
	p, _, err := m.rollUpOwner(q, &owners[0])
	return asList(p, err)
}

func asList(p metric.Point, err error) ([]metric.Point, error) {
	if err != nil {
		return nil, err
	}
	return []metric.Point{p}, nil
}

// ownRead reads the objects' own series.
type ownRead struct {
	query  metric.Query
	kind   metric.Kind // of their series; NoKind: there are none
	buffer []metric.Point
}

// read queries the table. Its buffer has room for more points.
func (o *ownRead) read(from Snapshot, more int) ([]metric.Point, error) {
	asked := o.query
	asked.Kind = &o.kind
	if reserve := o.query.Reserve; reserve != nil {
		asked.Reserve = func(points int) (_ []metric.Point, err error) {
			o.buffer, err = reserve(points + more)
			return o.buffer, err
		}
	}
	points, err := from.Objects(asked)
	if o.query.Kind != nil && o.kind != metric.NoKind {
		*o.query.Kind = o.kind
	}
	return points, err
}

// rolledUpList answers a query for all objects of a resource.
func (m *Moment) rolledUpList(q metric.Query) ([]metric.Point, error) {
	owners, err := m.selectedOwners(&q)
	if err != nil {
		return nil, err
	}
	own := ownRead{query: q}
	points, err := own.read(m.snapshot, len(owners))
	if err != nil && !errors.Is(err, metric.ErrNotFound) {
		return points, err
	}
	if err != nil {
		points = own.buffer[:0]
	}
	have, kinds := hasPoint(points[:len(points):len(points)]), make([]metric.Kind, len(points), len(points)+len(owners))
	for i := range kinds {
		kinds[i] = own.kind
	}
	var failed error // of the first object
	for i := range owners {
		if have(owners[i].Object.Name) {
			continue
		}
		p, kind, err := m.ownerPoint(q, &owners[i], own.kind != metric.NoKind)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		points, kinds = append(points, p), append(kinds, kind)
	}
	if len(points) == 0 {
		return nil, cmp.Or(failed, err)
	}
	if q.Expression.Stat == metric.NoStat {
		points = mostFrequent(points, kinds, q.Kind)
	}
	slices.SortFunc(points, func(a, b metric.Point) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return points, nil
}

// ownerPoint answers for one object of a list that has no point. If some objects have series of their
// own, this one may have one without a value.
func (m *Moment) ownerPoint(q metric.Query, owner *metric.PodOwner,
	mayHaveOwn bool) (p metric.Point, kind metric.Kind, err error) {
	if mayHaveOwn {
		own := ownRead{query: q}
		own.query.Object, own.query.Reserve, own.query.Kind = owner.Object.Name, nil, nil
		if _, err := own.read(m.snapshot, 0); own.kind != metric.NoKind {
			return p, own.kind, cmp.Or(err, metric.NotFoundf("%s has no value", owner.Object))
		}
	}
	return m.rollUpOwner(q, owner)
}

// mostFrequent drops the points whose kind fewer objects have, as the table does in lists: a rate and
// a mean don't belong into one list.
func mostFrequent(points []metric.Point, kinds []metric.Kind, kind *metric.Kind) []metric.Point {
	count := map[metric.Kind]int{}
	for _, k := range kinds {
		count[k]++
	}
	most := kinds[0]
	for _, k := range kinds {
		if count[k] > count[most] {
			most = k
		}
	}
	if kind != nil {
		*kind = most
	}
	if len(count) == 1 {
		return points
	}
	kept := points[:0]
	for i, p := range points {
		if kinds[i] == most {
			kept = append(kept, p)
		}
	}
	return kept
}

// selectedOwners returns the objects of a query that have pods.
func (m *Moment) selectedOwners(q *metric.Query) ([]metric.PodOwner, error) {
	all, err := m.podOwners(q.Resource, q.Namespace, q.Object)
	if err != nil || q.MatchObject == nil {
		return all, err
	}
	selected := make([]metric.PodOwner, 0, len(all)) // all is the moment's
	for _, podOwner := range all {
		if q.MatchObject(podOwner.Object) {
			selected = append(selected, podOwner)
		}
	}
	return selected, nil
}

// rollUpOwner rolls up the pods of an object.
func (m *Moment) rollUpOwner(q metric.Query, owner *metric.PodOwner) (metric.Point, metric.Kind, error) {
	pods, kind := owner.Pods, metric.NoKind
	asked := q
	asked.Resource, asked.Object, asked.Kind, asked.RollUp = podResource, metric.AllObjects, &kind,
		&metric.RollUp{Object: owner.Object}
	asked.ListObjects = func(int) (iter.Seq[metric.Object], int, bool) { return pods.All, pods.Len, true }
	p, err := m.rollUp(asked, pods.Ready, pods.Len)
	if q.Kind != nil && kind != metric.NoKind {
		*q.Kind = kind
	}
	return p, kind, err
}

// rollUp answers a query with a RollUp. Pods that never counted are 0 of a counter or a set, so they
// change no sum, and count as pods with a value.
func (m *Moment) rollUp(q metric.Query, ready iter.Seq2[metric.Object, metric.Workload],
	live int) (metric.Point, error) {
	r := m.reader
	u := &zeroFill{workloads: r.parts.Workloads, announces: r.parts.Announces, query: q, ready: ready, live: live}
	to := *q.RollUp
	var with []string // pods with series
	to.Each = func(o metric.Object) { with = append(with, o.Name) }
	q.Reserve, q.RollUp = nil, &to
	kind := q.Kind
	q.Kind = &u.kind
	points, err := m.snapshot.Objects(q)
	if err != nil && !errors.Is(err, metric.ErrNotFound) {
		return metric.Point{}, err
	}
	zeros := 0
	if len(with) < live && r.zerosOf(&q) {
		for range u.pods(func(name string) bool { _, has := slices.BinarySearch(with, name); return has }) {
			zeros++
		}
	}
	if err != nil && zeros == 0 {
		return metric.Point{}, err
	}
	if err != nil {
		p := m.snapshot.Zero(q.Expression)
		p.Object = to.Object
		points = []metric.Point{p}
	}
	if k := cmp.Or(u.kind, u.zeroKind); kind != nil && k != metric.NoKind {
		*kind = k
	}
	points[0].Pods = metric.PodCount{With: int32(len(with) + zeros), Of: int32(live)}
	return points[0], nil
}
