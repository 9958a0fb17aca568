package cluster

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
)

// Reasons of the Events on a LimitRange.
const (
	ReasonBadLimit       = "BadPushedMetricsLimit"
	ReasonMisplacedLimit = "MisplacedPushedMetricsLimit"
)

// limitRangeResource is the canonical resource of LimitRanges.
const limitRangeResource = "limitranges"

// limitRanges indexes the LimitRanges by namespace. One goroutine writes.
type limitRanges struct {
	observer *Observer
	events   *events
	logger   *slog.Logger

	mu          sync.RWMutex
	byNamespace map[string]map[string]*limitRange
	lowest      map[string]metric.Limits
}

func newLimitRanges(observer *Observer, events *events, logger *slog.Logger) *limitRanges {
	return &limitRanges{
		observer: observer, events: events, logger: logger,
		byNamespace: map[string]map[string]*limitRange{},
		lowest:      map[string]metric.Limits{},
	}
}

// limits returns the lowest limits that the namespace's LimitRanges set.
func (l *limitRanges) limits(namespace string) metric.Limits {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if lowest, ok := l.lowest[namespace]; ok {
		return lowest
	}
	return metric.UnsetLimits()
}

// sources returns the names of the namespace's LimitRanges that set a limit of pods, or of the
// namespace, sorted.
func (l *limitRanges) sources(namespace string, ofPods bool) (names []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for name, limitRange := range l.byNamespace[namespace] {
		set := limitRange.limits.Namespace
		if ofPods {
			set = limitRange.limits.Pod
		}
		if set.Metrics != metric.Unset || set.Series != metric.Unset {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (l *limitRanges) put(now *limitRange) {
	l.mu.Lock()
	was := l.byNamespace[now.namespace][now.name]
	if was != nil && was.uid != now.uid {
		was = nil
	}
	if was != nil && was.version == now.version {
		l.mu.Unlock()
		return
	}
	now.keepValid(was)
	if l.byNamespace[now.namespace] == nil {
		l.byNamespace[now.namespace] = map[string]*limitRange{}
	}
	l.byNamespace[now.namespace][now.name] = now
	changed := l.recomputeLocked(now.namespace)
	l.mu.Unlock()

	l.reportFaults(now)
	if changed {
		l.observer.limitsChanged(now.namespace)
	}
}

// keepValid replaces invalid limits by those of the previous version.
func (r *limitRange) keepValid(was *limitRange) {
	if was == nil {
		return
	}
	numbers, before := limitsIn(&r.limits), limitsIn(&was.limits)
	for i, bad := range r.invalid {
		if bad {
			*numbers[i] = *before[i]
		}
	}
}

func (l *limitRanges) drop(namespace, name string) {
	l.mu.Lock()
	delete(l.byNamespace[namespace], name)
	changed := l.recomputeLocked(namespace)
	l.mu.Unlock()
	if changed {
		l.observer.limitsChanged(namespace)
	}
}

func (l *limitRanges) replace(all []*limitRange) {
	listed := make(map[objectName]bool, len(all))
	for _, limitRange := range all {
		listed[objectName{limitRange.namespace, limitRange.name}] = true
		l.put(limitRange)
	}
	var gone []objectName
	l.mu.RLock()
	for namespace, named := range l.byNamespace {
		for name := range named {
			if key := (objectName{namespace, name}); !listed[key] {
				gone = append(gone, key)
			}
		}
	}
	l.mu.RUnlock()
	for _, key := range gone {
		l.drop(key.namespace, key.name)
	}
}

// recomputeLocked computes the lowest limits of the namespace, and reports whether they changed.
func (l *limitRanges) recomputeLocked(namespace string) bool {
	was, ok := l.lowest[namespace]
	if !ok {
		was = metric.UnsetLimits()
	}
	if len(l.byNamespace[namespace]) == 0 {
		delete(l.byNamespace, namespace)
		delete(l.lowest, namespace)
		return was != metric.UnsetLimits()
	}
	lowest := metric.UnsetLimits()
	numbers := limitsIn(&lowest)
	for _, limitRange := range l.byNamespace[namespace] {
		for i, said := range limitsIn(&limitRange.limits) {
			if *said != metric.Unset && (*numbers[i] == metric.Unset || *said < *numbers[i]) {
				*numbers[i] = *said
			}
		}
	}
	l.lowest[namespace] = lowest
	return was != lowest
}

// reportFaults reports the faults of a LimitRange: in the log and as Events.
func (l *limitRanges) reportFaults(r *limitRange) {
	on := metric.Object{Resource: limitRangeResource, Namespace: r.namespace, Name: r.name, UID: r.uid}
	if len(r.faults) > 0 {
		what := strings.Join(r.faults, "; ")
		l.logger.Warn("a LimitRange is invalid; the previous value or the default applies",
			"namespace", r.namespace, "name", r.name, "faults", what)
		l.events.add(on, news{reason: ReasonBadLimit, about: what, common: true,
			message: what + ". The previous value or the default applies."})
	}
	if r.misplacedFault != "" {
		l.logger.Error("a LimitRange makes Kubernetes reject pods", "namespace", r.namespace, "name", r.name,
			"fault", r.misplacedFault)
		l.events.add(on, news{reason: ReasonMisplacedLimit, about: r.misplacedFault, common: true,
			message: r.misplacedFault})
	}
}

// Sluice's types and resources in a LimitRange. The API server's validation and admission ignore a
// custom type. Under "Pod" or "Container" the LimitRanger admission plugin would take the resources
// for ones that containers request (Kubernetes docs, "Limit Ranges").
const (
	sluiceDomain  = "sluice.dev/"
	podType       = corev1.LimitType(sluiceDomain + "Pod")
	namespaceType = corev1.LimitType(sluiceDomain + "Namespace")
	metricsName   = corev1.ResourceName(sluiceDomain + "metrics")
	seriesName    = corev1.ResourceName(sluiceDomain + "series")
)

// maxLimit is the highest valid limit.
const maxLimit = 1_000_000_000

// limitRange is the part of a LimitRange that is kept.
type limitRange struct {
	namespace, name, uid, version string
	limits                        metric.Limits
	// invalid marks the limits whose value is invalid.
	invalid invalidLimits
	// faults are messages for people; they are reported in one Event.
	faults []string
	// misplacedFault is set if Sluice's resources are under a type that LimitRanger enforces.
	misplacedFault string
}

// invalidLimits marks limits in the order of limitsIn.
type invalidLimits [4]bool

// limitsIn returns pointers to the four limits of l.
func limitsIn(l *metric.Limits) [4]*int {
	return [4]*int{&l.Pod.Metrics, &l.Pod.Series, &l.Namespace.Metrics, &l.Namespace.Series}
}

func newLimitRange(from any) (*limitRange, bool) {
	l, ok := from.(*corev1.LimitRange)
	if !ok {
		return nil, false
	}
	short := &limitRange{
		namespace: l.Namespace, name: l.Name, uid: string(l.UID), version: l.ResourceVersion,
		limits: metric.UnsetLimits(),
	}
	for i := range l.Spec.Limits {
		short.read(&l.Spec.Limits[i])
	}
	return short, true
}

func (r *limitRange) read(item *corev1.LimitRangeItem) {
	numbers := limitsIn(&r.limits)
	switch {
	case item.Type == podType:
		r.readMax(item, metricsName, 0, numbers[0])
		r.readMax(item, seriesName, 1, numbers[1])
		r.readRest(item)
	case item.Type == namespaceType:
		r.readMax(item, metricsName, 2, numbers[2])
		r.readMax(item, seriesName, 3, numbers[3])
		r.readRest(item)
	case strings.HasPrefix(string(item.Type), sluiceDomain):
		r.addFault("type %s is unknown; must be %s or %s", item.Type, podType, namespaceType)
	default:
		if ours := sluiceResourcesIn(item); len(ours) > 0 && r.misplacedFault == "" {
			r.misplacedFault = fmt.Sprintf("%s under type %s is enforced by Kubernetes, and pods of this namespace that do not "+
				"declare it are rejected or stay Pending; must be under type %s or %s",
				metric.Truncate(strings.Join(ours, ", "), metric.MaxQuoted), item.Type, podType, namespaceType)
		}
	}
}

// readMax reads one limit. Kubernetes validates the names in a LimitRange but not the values, so
// negative and fractional ones get here.
func (r *limitRange) readMax(item *corev1.LimitRangeItem, name corev1.ResourceName, index int, into *int) {
	value, said := item.Max[name]
	if !said {
		return
	}
	whole, ok := wholeNumber(value)
	if !ok {
		r.invalid[index] = true
		r.addFault("max of %s under type %s is %s; must be a whole number from 0 to %d", name, item.Type, value.String(), maxLimit)
		return
	}
	*into = whole
}

// readRest reports the resources that have no meaning under Sluice's types.
func (r *limitRange) readRest(item *corev1.LimitRangeItem) {
	strange := slices.DeleteFunc(resourcesIn(item), func(name string) bool {
		return name == string(metricsName) || name == string(seriesName)
	})
	if len(strange) > 0 {
		r.addFault("%s under type %s is unknown; must be %s or %s", metric.Truncate(strings.Join(strange, ", "), metric.MaxQuoted),
			item.Type, metricsName, seriesName)
	}
}

// maxLimitFaults bounds the faults of a LimitRange that are kept: it may have 50,000 items with one each.
const maxLimitFaults = 8

func (r *limitRange) addFault(format string, args ...any) {
	if len(r.faults) < maxLimitFaults {
		r.faults = append(r.faults, fmt.Sprintf(format, args...))
	}
}

// wholeNumber compares a quantity exactly only once it is known to be small: that of "1e2000000000" takes an hour.
func wholeNumber(q quantity.Quantity) (int, bool) {
	if about := q.AsApproximateFloat64(); !(about >= 0 && about <= maxLimit) { // NaN, of "0e2000000000", is neither
		return 0, false
	}
	rounded := q.Value()
	return int(rounded), q.CmpInt64(rounded) == 0
}

// sluiceResourcesIn returns Sluice's resources in any field of an item.
func sluiceResourcesIn(item *corev1.LimitRangeItem) []string {
	return slices.DeleteFunc(resourcesIn(item), func(name string) bool { return !strings.HasPrefix(name, sluiceDomain) })
}

// resourcesIn returns the resources in all fields of an item.
func resourcesIn(item *corev1.LimitRangeItem) (names []string) {
	for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest,
		item.MaxLimitRequestRatio} {
		for name := range list {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
