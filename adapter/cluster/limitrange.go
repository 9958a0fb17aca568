package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
)

// The types of a LimitRange's items and the resources in them that are ours. A type of its own passes the API server's
// validation and admission untouched; under "Pod" or "Container" the LimitRanger admission plugin would take the
// resources for some that containers request (Kubernetes docs, "Limit Ranges").
const (
	sluiceDomain  = "sluice.dev/"
	podType       = corev1.LimitType(sluiceDomain + "Pod")
	namespaceType = corev1.LimitType(sluiceDomain + "Namespace")
	metricsName   = corev1.ResourceName(sluiceDomain + "metrics")
	seriesName    = corev1.ResourceName(sluiceDomain + "series")
)

// mostAllowed is the highest number that can be a limit.
const maxLimit = 1_000_000_000

// limitRange is what is kept of a LimitRange.
type limitRange struct {
	namespace, name, uid, version string
	limits                        metric.Limits
	// bad marks the limits whose value cannot be one.
	invalid invalidLimits
	// faults says what is wrong, for people; the first of each kind goes into an Event.
	faults []string
	// misplaced says that our resources stand where LimitRanger takes them for its own.
	misplacedFault string
}

// limitFaults marks limits in the order of limitsIn.
type invalidLimits [4]bool

// limitsIn are the four numbers of l.
func limitsIn(l *metric.Limits) [4]*int {
	return [4]*int{&l.Pod.Metrics, &l.Pod.Series, &l.Namespace.Metrics, &l.Namespace.Series}
}

func newLimitRange(from any) (*limitRange, bool) {
	of, ok := from.(*corev1.LimitRange)
	if !ok {
		return nil, false
	}
	short := &limitRange{
		namespace: of.Namespace, name: of.Name, uid: string(of.UID), version: of.ResourceVersion,
		limits: metric.NoLimits(),
	}
	for i := range of.Spec.Limits {
		short.read(&of.Spec.Limits[i])
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
		r.faults = append(r.faults, fmt.Sprintf("type %s says nothing; want %s or %s", item.Type, podType, namespaceType))
	default:
		if ours := sluiceResourcesIn(item); len(ours) > 0 && r.misplacedFault == "" {
			r.misplacedFault = fmt.Sprintf("%s under type %s makes Kubernetes itself limit it, and pods of this namespace that do not "+
				"declare it are rejected or stay Pending; want it under type %s or %s", strings.Join(ours, ", "), item.Type, podType, namespaceType)
		}
	}
}

// readMax reads one limit. Kubernetes checks the names in a LimitRange and not the values, so what is negative or
// fractional gets here.
func (r *limitRange) readMax(item *corev1.LimitRangeItem, name corev1.ResourceName, index int, into *int) {
	value, said := item.Max[name]
	if !said {
		return
	}
	whole, ok := wholeNumber(value)
	if !ok {
		r.invalid[index] = true
		r.faults = append(r.faults, fmt.Sprintf("max of %s under type %s is %s; want a whole number from 0 to %d",
			name, item.Type, value.String(), maxLimit))
		return
	}
	*into = whole
}

// readRest finds the resources that say nothing under a type of ours.
func (r *limitRange) readRest(item *corev1.LimitRangeItem) {
	strange := slices.DeleteFunc(resourcesIn(item), func(name string) bool {
		return name == string(metricsName) || name == string(seriesName)
	})
	if len(strange) > 0 {
		r.faults = append(r.faults, fmt.Sprintf("%s under type %s says nothing; want %s or %s",
			strings.Join(strange, ", "), item.Type, metricsName, seriesName))
	}
}

func wholeNumber(q quantity.Quantity) (int, bool) {
	if q.Sign() < 0 || q.CmpInt64(maxLimit) > 0 {
		return 0, false
	}
	rounded := q.Value()
	return int(rounded), q.CmpInt64(rounded) == 0
}

// oursIn are our resources in an item, wherever they stand in it.
func sluiceResourcesIn(item *corev1.LimitRangeItem) []string {
	return slices.DeleteFunc(resourcesIn(item), func(name string) bool { return !strings.HasPrefix(name, sluiceDomain) })
}

// resourcesIn are the resources in an item, wherever they stand in it.
func resourcesIn(item *corev1.LimitRangeItem) (all []string) {
	for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
		for name := range list {
			all = append(all, string(name))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
