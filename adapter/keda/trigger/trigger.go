// Package trigger reads the metadata of ScaledObjects' triggers.
package trigger

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
)

// Trigger is the metadata of a ScaledObject's trigger.
type Trigger struct {
	Question
	Target     float64
	Activation float64
	// AbsentIsZero: a metric that has no series reads 0. Otherwise it is an error.
	AbsentIsZero bool
}

// Question selects a metric's series, as text.
type Question struct {
	Namespace string
	// Metric is name[:stat][:window].
	Metric string
	// Object is "external", "namespace", "pods" (all that PodSelector selects, rolled up to one value),
	// or resource/name.
	Object      string
	PodSelector string // of the pods' own labels; empty: all
	Selector    string // of the metric's label sets; empty: all
}

// Forms of Question.Object that are no object's name.
const (
	External  = "external"
	Namespace = "namespace"
	Pods      = "pods"
)

// KEDAKeys are keys of the metadata that KEDA or its TLS settings own.
var KEDAKeys = []string{"scalerAddress", "tlsCertFile", "caCert", "tlsClientCert", "tlsClientKey", "unsafeSsl",
	"enableTLS", "metricType"}

// OwnKeys are the keys that Parse reads.
var OwnKeys = []string{"metric", "object", "podSelector", "selector", "target", "activation", "absent"}

// Parse reads the metadata of a trigger. The error names every fault: KEDA shows it in the
// Events of the ScaledObject.
func Parse(namespace string, metadata map[string]string) (Trigger, error) {
	t := Trigger{Question: Question{
		Namespace: namespace, Metric: metadata["metric"], Object: metadata["object"],
		PodSelector: metadata["podSelector"], Selector: metadata["selector"],
	}}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, metric.TruncateArgs(args)...))
	}
	for _, key := range OwnKeys {
		if n := len(metadata[key]); n > MaxText {
			fault("%s has %d bytes; must have %d at most", key, n, MaxText)
		}
	}
	if namespace == "" {
		fault("the ScaledObject has no namespace")
	}
	if t.Question.Object == "" {
		t.Question.Object = External
	}
	if t.Question.Metric == "" {
		fault(`metric is missing; must be name[:stat][:window], as in "jobs_waiting:last"`)
	}
	if o := t.Question.Object; o != External && o != Namespace && o != Pods && !isObject(o) {
		fault("object is %q; must be external, namespace, pods or <resource>/<name>, as in deployments.apps/web", o)
	}
	if t.Question.PodSelector != "" && t.Question.Object != Pods {
		fault("podSelector is set, but object is %q; must be %q", t.Question.Object, Pods)
	}
	t.Target = number(fault, metadata, "target", 0)
	switch {
	case t.Target <= 0 && len(faults) == 0:
		fault(`target is missing or not above 0; must be the value per replica, as in "10"`)
	case t.Target > 0 && (t.Target < leastTarget || t.Target > mostTarget):
		fault("target is %q; must be %v to %v: KEDA counts its thousandths", metadata["target"], leastTarget, mostTarget)
	}
	t.Activation = number(fault, metadata, "activation", 0)
	switch absent := metadata["absent"]; absent {
	case "0":
		t.AbsentIsZero = true
	case "", "error":
	default:
		fault(`absent is %q; must be "0" or "error"`, absent)
	}
	unknown := unknownKeys(metadata)
	more := len(faults) + len(unknown) - mostFaults
	for _, key := range unknown[:max(min(len(unknown), mostFaults-len(faults)), 0)] { // each takes a search for what was meant
		faults = append(faults, unknownKey(key))
	}
	if more > 0 {
		faults = append(faults[:mostFaults], fmt.Errorf("and %d more", more))
	}
	return t, errors.Join(faults...)
}

const (
	// KEDA has a target in thousandths, as an int64.
	leastTarget, mostTarget = 0.001, 9e15
	// MaxText bounds the values of metadata, in bytes. A selector of many words is slow to match.
	MaxText = 4 << 10
	// mostFaults bounds the message: an Event has 1 KiB.
	mostFaults = 8
)

// isObject reports whether a text names one object.
func isObject(text string) bool {
	resource, name, ok := strings.Cut(text, "/")
	return ok && resource != "" && name != "" && !strings.ContainsAny(name, "/*")
}

func number(fault func(string, ...any), metadata map[string]string, key string, otherwise float64) float64 {
	text, is := metadata[key]
	if !is {
		return otherwise
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		fault("%s is %q; must be a number", key, text)
	}
	return v
}

// unknownKeys are those that neither Sluice nor KEDA reads, in their order.
func unknownKeys(metadata map[string]string) (unknown []string) {
	for key := range metadata {
		if !slices.Contains(OwnKeys, key) && !slices.Contains(KEDAKeys, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return unknown
}

func unknownKey(key string) error {
	suggestion := ""
	if len(key) <= 63 { // the search for one takes time
		suggestion = suggest.DidYouMean(key, OwnKeys)
	}
	return fmt.Errorf("%s is unknown; must be one of %s%s", metric.Visible(metric.Truncate(key, metric.MaxQuoted)),
		strings.Join(OwnKeys, ", "), suggestion)
}

// MetricName is the name that KEDA gets: it writes "s0-" before it and cuts that off again.
// Without a letter or digit there is none.
func (t *Trigger) MetricName() string {
	name := []byte(strings.ToLower(t.Question.Metric))
	for i, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' {
			name[i] = '-'
		}
	}
	const most = 200
	return strings.Trim(string(name[:min(len(name), most)]), "-.")
}
