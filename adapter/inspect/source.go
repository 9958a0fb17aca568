package inspect

import "github.com/sluice-metrics/sluice/internal/smallest"

// Source lists what a Sluice holds. cmd/sluice implements it. Its methods answer from memory, and
// any goroutine may call them.
//
// Metrics, Series, Objects, Groups and Limits are those of all replicas. Senders, MetricSenders,
// Rejections and Agents are this replica's own: what it received.
type Source interface {
	Metrics(Query) Page[Metric]
	// Series returns some series of a metric, name[:stat][:window], on objects of a resource (empty:
	// external), at most limit: those of the first objects in the order of their names.
	Series(namespace, resource, name string, limit int) []Series
	// Value is what an autoscaler would read of a metric, name[:stat][:window]: the sum of an external
	// one, and else the mean over the objects, of which there are some.
	Value(namespace, resource, name string) (v float64, objects int)
	// MetricSenders returns some senders of a metric, the newest first; empty namespace: of all.
	MetricSenders(namespace, name string) []MetricSender
	// Windows are those that can be asked for, the shortest first.
	Windows() []string
	Objects(Query) Page[Object]
	Senders(Query) Page[Sender]
	Rejections(Query) Page[Rejection]
	Groups(Query) Page[PushedGroup]
	Limits(Query) Page[Limit]
	// Autoscalers are empty without a cluster.
	Autoscalers(Query) Page[Autoscaler]
	Rules(Query) Page[Rule]
	// Targets are empty unless pages are scraped.
	Targets(Query) Page[Target]
	// Policies are empty without a cluster.
	Policies(Query) Page[Policy]
	// UnknownPolicies is the error of those who read an external metric while the cluster may have policies
	// that this process doesn't know. Nil: Policies has all.
	UnknownPolicies() error
	// Agents are empty where none may report.
	Agents(Query) Page[Agent]
	// Away says which other replicas are not heard, a sentence each. The lists have what they sent last.
	Away() []string
}

// Query selects a page of a list. The zero Query selects the first DefaultMost items of everything.
type Query struct {
	// Namespace of the items; empty: all, also those without a namespace.
	Namespace string
	// Name of the items; empty: all.
	Name string
	// Contains is a part of the items' names, of Metrics; empty: any.
	Contains string
	// After is the key of the last item of the page before; zero: the first page.
	After Key
	// Most is the largest number of items; 0: DefaultMost.
	Most int
	// Bare leaves out the values and the readers of Metrics, which take most of the time. A page may have MaxBare.
	Bare bool
	// Fullest sorts Limits that are nearest to being used up first. There is no page after it.
	Fullest bool
}

// Sizes of a page.
const (
	DefaultMost = 500
	MaxMost     = 5000
	MaxBare     = 100_000
)

// Limit is Most, with the default and the bound applied.
func (q Query) Limit() int {
	if q.Most <= 0 {
		return DefaultMost
	}
	if q.Bare {
		return min(q.Most, MaxBare)
	}
	return min(q.Most, MaxMost)
}

// Takes reports whether an item of a namespace with a key may be in the page.
func (q *Query) Takes(namespace, name string, key *Key) bool {
	return (q.Namespace == "" || q.Namespace == namespace) && (q.Name == "" || q.Name == name) &&
		(q.After == Key{} || key.Compare(&q.After) > 0)
}

// Page is a part of a list.
type Page[T any] struct {
	Items []T
	// Next is the key of the last item if there are more; otherwise zero.
	Next Key
}

// ByKey orders items by their keys.
func ByKey[T any](keyOf func(*T) Key) func(a, b *T) int {
	return func(a, b *T) int {
		first, second := keyOf(a), keyOf(b)
		return first.Compare(&second)
	}
}

// Paged returns the page of a list that is short enough to be looked at as a whole.
func Paged[T any](q Query, all []T, describe func(*T) (namespace, name string, key Key)) Page[T] {
	keyOf := func(one *T) Key { _, _, key := describe(one); return key }
	first := smallest.Of(q.Limit(), ByKey(keyOf))
	for i := range all {
		if namespace, name, key := describe(&all[i]); q.Takes(namespace, name, &key) {
			first.Add(all[i])
		}
	}
	return PageOf(first, keyOf)
}

// PageOf makes a page of the smallest items.
func PageOf[T any](first *smallest.Set[T], keyOf func(*T) Key) (p Page[T]) {
	var more bool
	p.Items, more = first.Sorted()
	if n := len(p.Items); more && n > 0 {
		p.Next = keyOf(&p.Items[n-1])
	}
	return p
}

// All calls each for every item of a list, page by page. It stops if each returns false.
func All[T any](q Query, list func(Query) Page[T], each func(*T) bool) {
	for {
		page := list(q)
		for i := range page.Items {
			if !each(&page.Items[i]) {
				return
			}
		}
		if q.After = page.Next; q.After == (Key{}) {
			return
		}
	}
}
