package limit

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/internal/smallest"
	"github.com/sluice-metrics/sluice/metric"
)

// maxRejected bounds the rejected metrics that a quota remembers.
const maxRejected = 64

// rejectLocked counts a rejection, and reports it once per metric: in the log and as an Event.
// Before the limits are enforced it only counts.
func (r *Registry) rejectLocked(s *quota, limit metric.Limit, o *metric.Object, name string, labels metric.Labels) {
	r.metrics.countRejection(s.key.namespace)
	rare := s.ensureExtras()
	rare.idleWanted = true
	rare.rejections++
	if !r.enforcing.Load() {
		return
	}
	r.countUnmetLocked(rare, o, name, labels)
	if _, told := rare.rejected[name]; told || len(rare.rejected) == maxRejected {
		return
	}
	if rare.rejected == nil {
		rare.rejected = map[string]struct{}{}
	}
	rare.rejected[name] = struct{}{}
	about, message := *o, r.wordsLocked(s, limit, name)
	r.enqueue(func() {
		if suppressed, ok := r.said.Allow(); ok {
			r.logger.Info("a metric is over the limit", "metric", short(name), "object", about.String(), "reason",
				message, "suppressed", suppressed)
		}
		r.events.Event(subject(about), "MetricRefused", metric.Mask(name), message)
	})
}

// subject is the object that Events about o are on. For an external that is the namespace.
func subject(o metric.Object) metric.Object {
	if o.External() {
		return metric.Object{Resource: "namespaces", Name: o.Namespace}
	}
	return o
}

// Explain says why a series of a metric would be rejected, in the words of the Event; empty: it
// would be admitted. It decides as Admit, and changes nothing. It keeps none of its arguments,
// which may be borrowed.
func (r *Registry) Explain(o metric.Object, name string) string {
	k := quotaKeyOf(&o)
	if k.namespace == "" {
		return "" // it has no limit
	}
	limit := r.limitOf(k)
	shard, hash := r.shardOf(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s := shard.find(hash, k)
	if s == nil {
		s = &quota{key: k}
	}
	if own := s.slot(name); own != nil && own.evicted {
		return fmt.Sprintf("metric %q has just lost its slot to another, and its series are being removed", short(name))
	}
	if _, fits := r.roomLocked(s, limit, &o, name); fits {
		return ""
	}
	return r.wordsLocked(s, limit, name)
}

// Bounds of the words of a rejection: names are their clients' choice.
const (
	maxShownName    = 80  // bytes of a name
	maxShownHolders = 160 // bytes of the names of those that hold the slots
)

// wordsLocked says which limit rejects a metric or a series of it, its number and use, and which
// metrics hold the slots. Event, record, answer and explanation are these words.
func (r *Registry) wordsLocked(s *quota, limit metric.Limit, name string) string {
	what, unit, use, most := fmt.Sprintf("metric %q", short(name)), "metrics", s.metrics, limit.Metrics
	known := s.slot(name) != nil
	if known {
		what = fmt.Sprintf("a new series of %q", short(name))
	}
	if known || int64(s.metrics) < int64(limit.Metrics) {
		unit, use, most = "series", s.series, limit.Series
	}
	number := fmt.Sprintf("%d %s", most, unit)
	if number == "1 metrics" {
		number = "1 metric"
	}
	return fmt.Sprintf("%s is rejected: the limit of %s is %s, and %s. Raise sluice.dev/%s of type sluice.dev/%s in a LimitRange of %s; "+
		"a metric that a HorizontalPodAutoscaler names takes precedence",
		what, s.key.owner(), number, r.useLocked(s, use, unit == "series"), unit, s.key.kind(), s.key.namespace)
}

// short is a client's name in a message. It may have a secret that came to the wrong port.
func short(name string) string { return metric.Truncate(metric.Mask(name), maxShownName) }

// owner names what the quota limits.
func (k quotaKey) owner() string {
	if k.pod != "" {
		return "pod " + k.pod
	}
	return "namespace " + k.namespace + " (without its pods)"
}

// kind is the type of a LimitRange that limits the quota, without its group.
func (k quotaKey) kind() string {
	if k.pod != "" {
		return "Pod"
	}
	return "Namespace"
}

// useLocked says how many slots are in use, and by which metrics.
func (r *Registry) useLocked(s *quota, use uint32, series bool) string {
	if use == 0 {
		return "none is in use"
	}
	var holders []Holder
	if series {
		holders = r.holdersOfLocked(s)
	} else {
		holders = r.firstHoldersLocked(s)
	}
	text := fmt.Sprintf("%d are in use: ", use)
	if use == 1 {
		text = "1 is in use: "
	}
	shown, end := 0, len(text)+maxShownHolders
	for _, holder := range holders {
		name := short(holder.Metric)
		if series {
			name += fmt.Sprintf(" %d", holder.Series)
		}
		if holder.Autoscaler {
			name += " (named by an autoscaler)"
		}
		if shown > 0 && len(text)+len(name) > end {
			break
		}
		if shown++; shown > 1 {
			text += ", "
		}
		text += name
	}
	if left := int(s.metrics) - shown; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// Holder is a metric that holds a slot.
type Holder struct {
	Metric     string
	Series     int
	Autoscaler bool // an autoscaler of the namespace names it
}

// maxHolders bounds the listed holders of a quota.
const maxHolders = 10

// holdersOfLocked returns the metrics with the most series.
func (r *Registry) holdersOfLocked(s *quota) []Holder {
	first := smallest.Of(maxHolders, func(a, b **slot) int {
		return cmp.Or(cmp.Compare((*b).series, (*a).series), strings.Compare((*a).name, (*b).name))
	})
	for slot := range s.taken() {
		if !slot.evicted {
			first.Add(slot)
		}
	}
	slots, _ := first.Sorted()
	return r.asHoldersLocked(s, slots)
}

// firstHoldersLocked returns metrics in the order in which they took their slots.
func (r *Registry) firstHoldersLocked(s *quota) []Holder {
	var slots []*slot
	for slot := range s.taken() {
		if !slot.evicted {
			if slots = append(slots, slot); len(slots) == maxHolders {
				break
			}
		}
	}
	return r.asHoldersLocked(s, slots)
}

func (r *Registry) asHoldersLocked(s *quota, slots []*slot) []Holder {
	holders := make([]Holder, len(slots))
	for i, slot := range slots {
		holders[i] = Holder{slot.name, int(slot.series), r.namedByAutoscaler(s, slot)}
	}
	return holders
}
