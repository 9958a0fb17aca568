package main

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/customkind"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/limit"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
)

// inspection joins the parts that know what this process holds. It implements inspect.Source.
type inspection struct {
	merged  *aggregate.Merged
	freshen func() // applies the datagrams that the sockets still gather
	groups  *group.Groups
	// senders, pushers and rejections are those of this replica.
	senders    *record.Senders
	pushers    *record.Pushers
	windows    []time.Duration
	rejections *record.Rejections
	// limits and limitSources are nil standalone.
	limits       *limit.Registry
	limitSources func(namespace string, ofPods bool) []string
	// autoscalers returns those of a namespace; empty: of all. Nil: there are none.
	autoscalers func(inspect.Query) inspect.Page[inspect.Autoscaler]
	// eachMetric calls f for each metric of these autoscalers, with the pods that its value comes from. Nil: there are
	// none.
	eachMetric func(namespace string, f func(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, pods int))
	rules      *customkind.Rulebook
	// policies returns those of the cluster. Nil: there are none.
	policies func() []*policy.Policy
	// unknownPolicies is the error of readers while the policies are unknown. Nil: there are none.
	unknownPolicies func() error
	// targets returns the announced endpoints of a namespace; empty: of all. Nil: nothing is scraped.
	targets func(namespace string) []inspect.Target
	// agents returns those of nodes. Nil: none may report.
	agents func() []inspect.Agent
	// away says which other replicas are not heard. Nil: there are no others.
	away func() []string
}

func (p *dataPath) inspection() inspection {
	i := inspection{merged: p.merged, freshen: p.statsd.Freshen, groups: p.groups, senders: p.senders,
		pushers: p.pushers, windows: p.cfg.table.Windows, rejections: p.rejections, rules: p.rules}
	if p.cluster.view != nil {
		i.limits, i.limitSources = p.cluster.limits, p.cluster.view.LimitSources
		i.autoscalers, i.eachMetric = p.autoscalerDocuments, p.cluster.autoscalers.EachMetric
		i.policies, i.unknownPolicies = p.cluster.policies.List, p.cluster.policies.Unknown
	}
	i.targets = p.targets()
	if p.cfg.agents.Enabled() {
		i.agents = func() []inspect.Agent { // the port is opened later
			return mergedAgents(agentDocuments(p.agents.Nodes()), p.replication.others)
		}
	}
	if p.replication.replica != nil {
		i.away = p.replication.replica.Away
	}
	return i
}

// Away implements inspect.Source.
func (i inspection) Away() []string {
	if i.away == nil {
		return nil
	}
	return i.away()
}

// autoscalerDocuments returns a page of the autoscalers, with what Sluice makes of them.
func (p *dataPath) autoscalerDocuments(q inspect.Query) inspect.Page[inspect.Autoscaler] {
	page := p.cluster.autoscalers.Autoscalers(q)
	for i := range page.Items {
		a := &page.Items[i]
		a.Wake, a.Instant = p.wakeDocument(a), p.instantDocument(a)
	}
	return page
}

// part is the part of a list of the table. Its places are the first three strings of keys.
func part(q inspect.Query, placeOf func(inspect.Key) aggregate.Place) aggregate.Part {
	return aggregate.Part{Namespace: q.Namespace, Name: q.Name, Contains: q.Contains, After: placeOf(q.After), Most: q.Limit()}
}

// Keys of lists of the table.
func metricPlace(k inspect.Key) aggregate.Place {
	return aggregate.Place{Namespace: k[0], Name: k[1], Resource: k[2]}
}

func metricKey(p aggregate.Place) inspect.Key { return inspect.Key{p.Namespace, p.Name, p.Resource} }

func objectPlace(k inspect.Key) aggregate.Place {
	return aggregate.Place{Namespace: k[0], Resource: k[1], Name: k[2]}
}

func objectKey(p aggregate.Place) inspect.Key { return inspect.Key{p.Namespace, p.Resource, p.Name} }

// Metrics implements inspect.Source.
func (i inspection) Metrics(q inspect.Query) (page inspect.Page[inspect.Metric]) {
	i.freshen()
	list, last, more := i.merged.Metrics(part(q, metricPlace))
	if more {
		page.Next = metricKey(last)
	}
	var readers map[metricRead]*metricReaders
	if !q.Bare {
		readers = i.readers(q.Namespace)
	}
	page.Items = make([]inspect.Metric, len(list))
	for n, m := range list {
		page.Items[n] = inspect.Metric{
			Namespace: m.Namespace, Name: m.Name, Resource: m.Resource, Kind: m.Kind.String(),
			Objects: m.Objects, Series: m.Series, LastSample: m.LastSample.UTC(),
			LabelKeys: m.LabelKeys,
		}
		if read := readers[metricRead{m.Namespace, m.Name, sourceOf(m.Resource)}]; read != nil {
			page.Items[n].ReadBy, page.Items[n].ReadByMore = read.names, read.more
		}
		if m.Series == 1 && !q.Bare {
			if page.Items[n].Value = i.value(m.Place); page.Items[n].Value != "" {
				page.Items[n].Stat = i.stat(m.Kind)
			}
		}
	}
	return page
}

// value is that of a metric with a single series; empty: it has none.
func (i inspection) value(place aggregate.Place) string {
	for _, someSery := range i.merged.SomeSeries(place, 1) {
		if someSery.HasValue {
			return string(someSery.Value.Append(nil))
		}
	}
	return ""
}

// stat is the stat of the bare names of a kind, with its window.
func (i inspection) stat(k metric.Kind) string {
	stat := k.DefaultStat()
	if !stat.Windowed() {
		return stat.String()
	}
	return stat.String() + ":" + metric.FormatWindow(i.merged.Begin().Zero(metric.Expression{}).Window)
}

// Namespaces implements native.Lister.
func (i inspection) Namespaces(q inspect.Query) (page inspect.Page[string]) {
	i.freshen()
	list, more := i.merged.Namespaces(q.After[0], q.Limit())
	if page.Items = list; more && len(list) > 0 {
		page.Next = inspect.Key{list[len(list)-1]}
	}
	return page
}

// metricRead is a metric that an autoscaler reads, by its bare name. An autoscaler names a kind, whose
// resource may be unknown, so metrics of objects are only divided into those of pods and of others.
type metricRead struct{ namespace, name, source string }

func sourceOf(resource string) string {
	switch resource {
	case "":
		return inspect.SourceExternal
	case "pods":
		return inspect.SourcePods
	}
	return inspect.SourceObject
}

// metricReaders are the autoscalers that name a metric, as "namespace/name".
type metricReaders struct {
	names []string
	more  int                 // beyond inspect.MetricReaders
	last  *inspect.Autoscaler // each has its metrics one after the other
}

// readers returns the autoscalers that name each metric.
func (i inspection) readers(namespace string) map[metricRead]*metricReaders {
	if i.eachMetric == nil {
		return nil
	}
	readers := map[metricRead]*metricReaders{}
	i.eachMetric(namespace, func(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, pods int) {
		of := metricRead{a.Namespace, metric.BareName(m.Name), m.Source}
		if m.Source == inspect.SourceObject && (m.ObjectKind == "Pod" || pods > 0) {
			of.source = inspect.SourcePods // of a pod, or rolled up from pods
		}
		if len(of.name) > metric.MaxNameLength {
			return // no metric has the name, and rules would match it
		}
		for _, pushed := range i.rules.ReadsOf(a.Namespace, of.name) {
			of.name = pushed
			read := readers[of]
			if read == nil {
				read = new(metricReaders)
				readers[of] = read
			}
			switch {
			case read.last == a:
			case len(read.names) < inspect.MetricReaders:
				read.names = append(read.names, a.Namespace+"/"+a.Name)
			default:
				read.more++
			}
			read.last = a
		}
	})
	return readers
}

// Series implements inspect.Source.
func (i inspection) Series(namespace, resource, name string, most int) []inspect.Series {
	i.freshen()
	e := metric.ParseExpression(name)
	list := i.merged.SomeSeriesAs(aggregate.Place{Resource: resource, Namespace: namespace, Name: e.Name}, e, most)
	all := make([]inspect.Series, len(list))
	for n, s := range list {
		all[n] = inspect.Series{
			Object:     inspect.Reference{Resource: s.Object.Resource, Namespace: s.Object.Namespace, Name: s.Object.Name},
			LastSample: s.LastSample.UTC(), Interval: s.Interval.Seconds(),
		}
		if s.Labels.Len() > 0 {
			all[n].Labels = s.Labels.Map()
		}
		if s.HasValue {
			all[n].Value = string(s.Value.Append(nil))
		}
	}
	return all
}

// Value implements inspect.Source.
func (i inspection) Value(namespace, resource, name string) (v float64, objects int) {
	q := metric.Query{Namespace: namespace, Resource: resource, Expression: metric.ParseExpression(name)}
	read := i.merged.External
	if resource != "" {
		q.Object, read = metric.AllObjects, i.merged.Objects
	}
	points, err := read(q)
	if err != nil || len(points) == 0 {
		return 0, 0
	}
	for n := range points {
		v += points[n].Value.Float64()
	}
	if resource != "" {
		v /= float64(len(points))
	}
	return v, len(points)
}

// MetricSenders implements inspect.Source.
func (i inspection) MetricSenders(namespace, name string) []inspect.MetricSender {
	return i.pushers.Of(namespace, name)
}

// Windows implements inspect.Source.
func (i inspection) Windows() []string {
	all := make([]string, len(i.windows))
	for n, w := range slices.Sorted(slices.Values(i.windows)) {
		all[n] = metric.FormatWindow(w)
	}
	return all
}

// Objects implements inspect.Source.
func (i inspection) Objects(q inspect.Query) (page inspect.Page[inspect.Object]) {
	i.freshen()
	list, last, more := i.merged.ObjectsWithSeries(part(q, objectPlace))
	if more {
		page.Next = objectKey(last)
	}
	page.Items = make([]inspect.Object, len(list))
	for n, objectSummary := range list {
		page.Items[n] = inspect.Object{Reference: inspect.Reference(objectSummary.Place), Metrics: objectSummary.Metrics,
			Series: objectSummary.Series, LastSample: objectSummary.LastSample.UTC(), MetricNames: objectSummary.MetricNames}
	}
	return page
}

// Senders implements inspect.Source. The table says how many series a pod has, and when it was last
// heard: known lines are not recorded.
func (i inspection) Senders(q inspect.Query) inspect.Page[inspect.Sender] {
	page := inspect.Paged(q, i.senders.All(), func(s *record.Sender) (namespace, name string, key inspect.Key) {
		return s.Namespace, s.Name, s.Key()
	})
	pods := make([]aggregate.Place, len(page.Items))
	for n, sender := range page.Items {
		if sender.Sort == record.OfPod {
			pods[n] = aggregate.Place{Resource: "pods", Namespace: sender.Namespace, Name: sender.Name}
		}
	}
	i.freshen()
	listed := make([]listedSender, len(page.Items))
	for n, have := range i.merged.ObjectSummaries(pods) {
		listed[n].Sender = page.Items[n]
		listed[n].Series = have.Series
		listed[n].heard(have.LastSample)
	}
	i.addPushed(listed)
	out := inspect.Page[inspect.Sender]{Items: make([]inspect.Sender, len(listed)), Next: page.Next}
	for n := range listed {
		out.Items[n] = listed[n].document(time.Now())
	}
	return out
}

// listedSender is a sender with what is known of the external metrics that it pushes.
type listedSender struct {
	record.Sender
	remembered bool      // one of them is known
	shared     time.Time // newest sample of those that others push as well
}

func (s *listedSender) heard(at time.Time) {
	if at.After(s.LastHeard) {
		s.LastHeard = at.UTC()
	}
}

// pushes notes an external metric of the sender. Of several senders it isn't known whose the newest sample
// is.
func (s *listedSender) pushes(external *aggregate.MetricSummary, alone bool) {
	s.Series += external.Series
	s.remembered = s.remembered || external.Series > 0
	if alone {
		s.heard(external.LastSample)
	} else if external.LastSample.After(s.shared) {
		s.shared = external.LastSample
	}
}

// document is that of the sender. Its known lines may be of metrics of other objects, or of external
// metrics that the record has of others only: then it may have been heard just now. The requests of an
// account are each noted.
func (s *listedSender) document(now time.Time) inspect.Sender {
	out := s.Sender.Sender
	if s.Sort == record.OfAccount {
		return out
	}
	maybe := s.shared
	if s.Forwards || s.External && !s.remembered {
		maybe = now
	}
	if maybe.After(s.LastHeard) {
		out.MaybeHeard = maybe.UTC()
	}
	return out
}

// addPushed adds what senders push: the names, and the series of external metrics.
func (i inspection) addPushed(senders []listedSender) {
	at := make(map[inspect.Key]*listedSender, len(senders))
	for n := range senders {
		at[senders[n].Key()] = &senders[n]
	}
	var places []aggregate.Place
	var pushers [][]*listedSender // by place
	var sole []bool
	i.pushers.Each(func(namespace, name string, all []inspect.MetricSender) {
		var listed []*listedSender
		for _, metricSender := range all {
			if s := at[inspect.Key{metricSender.Namespace, metricSender.Name, metricSender.Sort}]; s != nil {
				s.Metrics, listed = append(s.Metrics, name), append(listed, s)
			}
		}
		if len(listed) > 0 {
			places = append(places, aggregate.Place{Namespace: namespace, Name: name})
			pushers, sole = append(pushers, listed), append(sole, len(all) == 1)
		}
	})
	for n, external := range i.merged.MetricSummaries(places) {
		for _, s := range pushers[n] {
			s.pushes(&external, sole[n])
		}
	}
	for n := range senders {
		s := &senders[n]
		slices.Sort(s.Metrics)
		s.Metrics = slices.Compact(s.Metrics)
		s.Metrics = s.Metrics[:min(len(s.Metrics), inspect.SenderMetrics)]
	}
}

// Rejections implements inspect.Source.
func (i inspection) Rejections(q inspect.Query) inspect.Page[inspect.Rejection] {
	return inspect.Paged(q, i.rejections.All(), func(r *inspect.Rejection) (namespace, name string, key inspect.Key) {
		return r.Namespace, r.Metric, r.Key()
	})
}

// Targets implements inspect.Source.
func (i inspection) Targets(q inspect.Query) (page inspect.Page[inspect.Target]) {
	if i.targets == nil {
		return page
	}
	return inspect.Paged(q, i.targets(q.Namespace), func(t *inspect.Target) (namespace, name string, key inspect.Key) {
		return t.Namespace, t.Pod, t.Key()
	})
}

// Groups implements inspect.Source.
func (i inspection) Groups(q inspect.Query) (page inspect.Page[inspect.PushedGroup]) {
	part := group.Part{Namespace: q.Namespace, Job: q.Name, Most: q.Limit()}
	if labels, ok := metric.UnpackLabels(q.After[2]); ok {
		part.After = group.Key{Namespace: q.After[0], Labels: labels}
	}
	list, more := i.groups.Listed(part)
	page.Items = make([]inspect.PushedGroup, len(list))
	for n := range list {
		page.Items[n] = pushedGroup(&list[n])
	}
	if n := len(list); more && n > 0 {
		last := list[n-1].Key
		page.Next = inspect.Key{last.Namespace, page.Items[n-1].Job, last.Labels.Packed()}
	}
	return page
}

func pushedGroup(g *group.Group) inspect.PushedGroup {
	p := inspect.PushedGroup{Namespace: g.Key.Namespace, Labels: g.Key.Labels.Map(), LastPush: g.Pushed.UTC()}
	p.Job = p.Labels["job"]
	delete(p.Labels, "job")
	p.Families, p.Series = g.Size()
	if g.Failed.After(g.Pushed) {
		p.LastFailure = g.Failed.UTC()
	}
	return p
}

// Limits implements inspect.Source. Standalone there are none.
func (i inspection) Limits(q inspect.Query) (page inspect.Page[inspect.Limit]) {
	if i.limits == nil {
		return page
	}
	part := limit.Part{Namespace: q.Namespace, Name: q.Name, Most: q.Limit(), Fullest: q.Fullest}
	if k := q.After; k != (inspect.Key{}) {
		part.After = metric.Object{Resource: k[1], Namespace: k[0], Name: k[2], UID: k[3]}
	}
	list, more := i.limits.Uses(part)
	page.Items = make([]inspect.Limit, len(list))
	for n, use := range list {
		page.Items[n] = i.limit(use)
	}
	if n := len(list); more && n > 0 && !q.Fullest {
		last := list[n-1].Object
		page.Next = inspect.Key{last.Namespace, last.Resource, last.Name, last.UID}
	}
	return page
}

func (i inspection) limit(use limit.Use) inspect.Limit {
	namespace, ofPods := use.Object.Name, false
	if use.Object.Resource == "pods" {
		namespace, ofPods = use.Object.Namespace, true
	}
	out := inspect.Limit{
		Of:      inspect.Reference{Resource: use.Object.Resource, Namespace: use.Object.Namespace, Name: use.Object.Name},
		Metrics: use.Metrics, MaxMetrics: use.Limit.Metrics, Series: use.Series, MaxSeries: use.Limit.Series,
		Source: strings.Join(i.limitSources(namespace, ofPods), ","), Rejected: use.Rejected,
		WantedMetrics: use.WantedMetrics, WantedSeries: use.WantedSeries,
	}
	for _, holder := range use.Holders {
		out.Holders = append(out.Holders, inspect.Holder(holder))
	}
	return out
}

// Autoscalers implements inspect.Source.
func (i inspection) Autoscalers(q inspect.Query) (page inspect.Page[inspect.Autoscaler]) {
	if i.autoscalers == nil {
		return page
	}
	return i.autoscalers(q)
}

// Rules implements inspect.Source.
func (i inspection) Rules(q inspect.Query) inspect.Page[inspect.Rule] {
	var all []inspect.Rule
	if i.rules != nil {
		all = i.rules.Listed()
	}
	return inspect.Paged(q, all, func(r *inspect.Rule) (namespace, name string, key inspect.Key) {
		return r.Namespace, r.Name, inspect.Key{r.Namespace, r.Name}
	})
}

// Policies implements inspect.Source.
func (i inspection) Policies(q inspect.Query) inspect.Page[inspect.Policy] {
	if i.policies == nil {
		return inspect.Page[inspect.Policy]{}
	}
	found := inspect.Paged(q, i.policies(), func(p **policy.Policy) (namespace, name string, key inspect.Key) {
		return (*p).Namespace, (*p).Name, inspect.Key{(*p).Namespace, (*p).Name}
	})
	page := inspect.Page[inspect.Policy]{Items: make([]inspect.Policy, len(found.Items)), Next: found.Next}
	for n, one := range found.Items {
		page.Items[n] = customkind.ListedPolicy(one)
	}
	return page
}

// Agents implements inspect.Source.
func (i inspection) Agents(q inspect.Query) (page inspect.Page[inspect.Agent]) {
	if i.agents == nil {
		return page
	}
	return inspect.Paged(q, i.agents(), func(a *inspect.Agent) (namespace, name string, key inspect.Key) {
		return "", a.Node, a.Key()
	})
}

// UnknownPolicies implements inspect.Source.
func (i inspection) UnknownPolicies() error {
	if i.unknownPolicies == nil {
		return nil
	}
	return i.unknownPolicies()
}
