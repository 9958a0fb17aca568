package export

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// part is the series of one kind in a family of the table, or one sample of each.
type part struct {
	base   string // the exposed name, without the suffix
	total  bool   // the exposed name ends in "_total"
	kind   metric.Kind
	family *metric.Family
	whole  string // the name of the timer whose samples of the exposed name the part is; empty: it is whole
}

const total = "_total"

func (p *part) name() string {
	if p.total {
		return p.base + total
	}
	return p.base
}

// types are the exposed types of kinds.
func (o *Options) typeOf(k metric.Kind) exposition.Type {
	switch k {
	case metric.Counter:
		return exposition.CounterType
	case metric.Timer:
		if o.Timers == Histograms {
			return exposition.HistogramType
		}
		return exposition.SummaryType
	}
	return exposition.GaugeType
}

// newPart names the series of one kind.
func (o *Options) newPart(f *metric.Family, k metric.Kind) part {
	p := part{base: f.Name, kind: k, family: f}
	if !utf8.ValidString(p.base) {
		p.base = strings.ToValidUTF8(p.base, "\uFFFD")
	}
	if o.Naming == StatsDExporter {
		p.base = statsdName(p.base)
	}
	counter := k == metric.Counter && o.Naming == Prometheus
	if counter && o.escapesUnderscores() && !strings.HasSuffix(p.base, total) {
		p.base += total
	}
	p.base, p.total = strings.CutSuffix(exposition.EscapeName(p.base, o.Escaping), total)
	if p.total = p.total || counter; p.base == "" {
		p.base, p.total = total, false
	}
	return p
}

// escapesUnderscores reports whether the escaping changes the "_" of a suffix.
func (o *Options) escapesUnderscores() bool {
	return o.Escaping == exposition.Dots || o.Escaping == exposition.Values
}

// statsdName escapes a name as statsd_exporter does: "_" replaces each other character, and stands
// before a leading digit.
func statsdName(name string) string {
	if name == "" {
		return name
	}
	escaped := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == ':' {
			return c
		}
		return '_'
	}, name)
	if escaped[0] >= '0' && escaped[0] <= '9' {
		return "_" + escaped
	}
	return escaped
}

// names are all parts, sorted by exposed name and namespace.
type names struct {
	options *Options
	all     []part
}

// newNames names families so that the page is valid: each exposed name has one type, and no name is
// that of another family's samples, or of Sluice's own metrics. Where kinds of a namespace compete for a name, the first in the order of kinds
// has it, and the others have their kind at the end. What competes then too is left out. Where namespaces compete,
// none gives way (untype).
func newNames(o *Options, families []metric.Family) (n names, leftOut int) {
	n = names{o, make([]part, 0, len(families))}
	for i := range families {
		for _, k := range metric.Kinds() {
			if !families[i].Kinds.Has(k) {
				continue
			}
			if p := o.newPart(&families[i], k); exposition.IsSluices(p.base) {
				leftOut++
			} else {
				n.all = append(n.all, p)
			}
		}
	}
	n.sort()
	if n.rename() {
		n.sort()
	}
	before := len(n.all)
	n.dropOtherTypes()
	n.dropSamples()
	leftOut += before - len(n.all)
	if n.untype() {
		n.sort()
	}
	return n, leftOut
}

func (n *names) sort() {
	slices.SortFunc(n.all, func(a, b part) int {
		return cmp.Or(compareOwn(&a, &b), cmp.Compare(a.kind, b.kind), cmp.Compare(a.family.Name, b.family.Name),
			cmp.Compare(a.family.Resource, b.family.Resource))
	})
}

func compareNames(a, b *part) int {
	if c := cmp.Compare(a.base, b.base); c != 0 || a.total == b.total {
		return c
	}
	if a.total {
		return 1
	}
	return -1
}

// compareOwn compares names, and namespaces for one name.
func compareOwn(a, b *part) int {
	return cmp.Or(compareNames(a, b), cmp.Compare(a.family.Namespace, b.family.Namespace))
}

// groups calls f for the parts of each exposed name, ownGroups for those of each namespace.
func (n *names) groups(f func([]part))    { eachRun(n.all, compareNames, f) }
func (n *names) ownGroups(f func([]part)) { eachRun(n.all, compareOwn, f) }

func eachRun(all []part, compare func(a, b *part) int, f func([]part)) {
	for len(all) > 0 {
		end := 1
		for end < len(all) && compare(&all[0], &all[end]) == 0 {
			end++
		}
		f(all[:end])
		all = all[end:]
	}
}

// otherType reports whether a part has another type than the first of its name.
func (n *names) otherType(group []part, p *part) bool {
	return n.options.typeOf(p.kind) != n.options.typeOf(group[0].kind)
}

func (n *names) rename() (renamed bool) {
	n.ownGroups(func(group []part) {
		for i := range group {
			if p := &group[i]; n.otherType(group, p) {
				p.base, p.total = p.name()+"_"+p.kind.String(), false
				renamed = true
			}
		}
	})
	return renamed
}

func (n *names) dropOtherTypes() {
	kept := n.all[:0]
	n.ownGroups(func(group []part) {
		first := group[0]
		for i := range group {
			if n.options.typeOf(group[i].kind) == n.options.typeOf(first.kind) {
				kept = append(kept, group[i])
			}
		}
	})
	n.all = kept
}

// dropSamples leaves out names such as "a_count" beside the timer "a" of the same namespace.
func (n *names) dropSamples() {
	drop := map[*metric.Family]metric.KindSet{} // rare
	n.ownGroups(func(group []part) {
		own := func(name string) (exposition.Type, bool) { return n.find(name, group[0].family, compareOwn) }
		if _, clash := exposition.SampleOwner(group[0].name(), own); clash {
			for _, p := range group {
				drop[p.family] |= metric.KindSetOf(p.kind)
			}
		}
	})
	if len(drop) > 0 {
		n.all = slices.DeleteFunc(n.all, func(p part) bool { return drop[p.family].Has(p.kind) })
	}
}

// untype has the samples of timers written as plain numbers, each under its own name, where those of other namespaces prevent
// the type in text: what one namespace pushes changes no name of another one, and leaves out none. It reports whether there
// are any. Families of protobuf have their types beside each other.
func (n *names) untype() bool {
	if n.options.Format == exposition.Protobuf {
		return false
	}
	plain := map[string]bool{} // names of timers; rare
	n.groups(func(group []part) {
		name := group[0].name()
		if slices.ContainsFunc(group, func(p part) bool { return n.otherType(group, &p) }) {
			n.markPlain(plain, name)
		}
		if owner, clash := exposition.SampleOwner(name, n.typeOf); clash {
			n.markPlain(plain, owner)
		}
	})
	var samples []part
	n.all = slices.DeleteFunc(n.all, func(p part) bool {
		whole := p.name()
		if p.kind != metric.Timer || !plain[whole] {
			return false
		}
		for _, suffix := range n.options.sampleSuffixes() {
			samples = append(samples, part{base: whole + suffix, kind: p.kind, family: p.family, whole: whole})
		}
		return true
	})
	for i := range samples {
		samples[i].base, samples[i].total = strings.CutSuffix(samples[i].base, total)
	}
	n.all = append(n.all, samples...)
	return len(samples) > 0
}

// markPlain marks a timer's name, and those that its samples prevent then.
func (n *names) markPlain(plain map[string]bool, name string) {
	if plain[name] {
		return
	}
	plain[name] = true
	for _, suffix := range n.options.sampleSuffixes() {
		if t, there := n.typeOf(name + suffix); there && t == n.options.typeOf(metric.Timer) {
			n.markPlain(plain, name+suffix)
		}
	}
}

// sampleSuffixes end the names of a timer's samples.
func (o *Options) sampleSuffixes() []string {
	if o.Timers == Histograms {
		return []string{"_bucket", "_sum", "_count"}
	}
	return []string{"", "_sum", "_count"} // the quantiles have the timer's own name
}

// typeOfGroup is the type of the parts of one name.
func (n *names) typeOfGroup(group []part) exposition.Type {
	for i := range group {
		if group[i].whole != "" || n.otherType(group, &group[i]) {
			return exposition.UntypedType
		}
	}
	return n.options.typeOf(group[0].kind)
}

// typeOf returns the type of the first part of an exposed name.
func (n *names) typeOf(name string) (exposition.Type, bool) {
	return n.find(name, nil, compareNames)
}

// find returns the type of the first part of an exposed name that is equal, in the namespace of a family.
func (n *names) find(name string, in *metric.Family, compare func(a, b *part) int) (exposition.Type, bool) {
	want := part{family: in}
	want.base, want.total = strings.CutSuffix(name, total)
	i := sort.Search(len(n.all), func(i int) bool { return compare(&n.all[i], &want) >= 0 })
	if i == len(n.all) || compare(&n.all[i], &want) != 0 {
		return 0, false
	}
	return n.options.typeOf(n.all[i].kind), true
}

// has reports whether a name without "_total" is exposed.
func (n *names) has(base string) bool {
	want := part{base: base}
	i := sort.Search(len(n.all), func(i int) bool { return compareNames(&n.all[i], &want) >= 0 })
	return i < len(n.all) && compareNames(&n.all[i], &want) == 0
}

// objectKeys are the labels that name an object, as kube-state-metrics spells them. "job" is a label
// of every scrape.
var objectKeys = map[string]string{
	"pods": "pod", "services": "service", "nodes": "node", "namespaces": "namespace",
	"persistentvolumeclaims": "persistentvolumeclaim",
	"deployments.apps":       "deployment", "statefulsets.apps": "statefulset", "daemonsets.apps": "daemonset",
	"replicasets.apps": "replicaset",
	"jobs.batch":       "job_name", "cronjobs.batch": "cronjob", "ingresses.networking.k8s.io": "ingress",
	"horizontalpodautoscalers.autoscaling": "horizontalpodautoscaler",
}

// appendObject appends the labels of a series' object.
func appendObject(dst []metric.Label, o *metric.Object) []metric.Label {
	if o.Namespace != "" {
		dst = append(dst, metric.Label{Key: "namespace", Value: o.Namespace})
	}
	if o.External() {
		return dst
	}
	if key, known := objectKeys[o.Resource]; known {
		return append(dst, metric.Label{Key: key, Value: o.Name})
	}
	return append(dst, metric.Label{Key: "resource", Value: o.Resource}, metric.Label{Key: "object", Value: o.Name})
}

// appendPushed appends the pushed labels. Those without a value are left out: to Prometheus they are
// no labels.
func (o *Options) appendPushed(dst []metric.Label, pushed metric.Labels, k metric.Kind) []metric.Label {
	objects := len(dst)
	for key, value := range pushed.All() {
		if value == "" {
			continue
		}
		if o.Naming == StatsDExporter {
			key = statsdName(key)
		}
		key = exposition.EscapeKey(valid(key), o.Escaping)
		for key == "__name__" || key == "quantile" && k == metric.Timer || key == "le" && k == metric.Timer ||
			hasKey(dst, key) {
			if hasKey(dst[objects:], key) {
				key = "" // two pushed keys are escaped alike: the first is kept
				break
			}
			key = exposition.TakenPrefix + key
		}
		if key != "" {
			dst = append(dst, metric.Label{Key: key, Value: valid(value)})
		}
	}
	return dst
}

func hasKey(labels []metric.Label, key string) bool {
	return slices.ContainsFunc(labels, func(l metric.Label) bool { return l.Key == key })
}

// valid makes text UTF-8: Prometheus rejects a page with any other.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// seen holds the label sets of a family, by hash: different pushed sets may be exposed alike, and a
// page with a repeated series is invalid.
type seen struct {
	seed maphash.Seed
	sets map[uint64]struct{}
}

func newSeen() *seen { return &seen{maphash.MakeSeed(), map[uint64]struct{}{}} }

// add reports whether a label set is new.
func (s *seen) add(labels []metric.Label) bool {
	sum := uint64(0)
	for _, l := range labels { // in any order
		sum += (maphash.String(s.seed, l.Key) | 1) * maphash.String(s.seed, l.Value)
	}
	before := len(s.sets)
	s.sets[sum] = struct{}{}
	return len(s.sets) > before
}
