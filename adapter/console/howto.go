package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// howto is what a page shows, as commands and as an autoscaler: the metric, in all its series or in a single one.
type howto struct {
	metric     *inspect.Metric
	expression metric.Expression
	stat       metric.Stat     // of the expression, or the default
	one        *inspect.Series // the only series that was chosen; nil: there are others, or none
	object     string          // the only object; empty: there are several
	value      float64         // present one, for the target; NaN: there is none
	apiVersion string          // of the objects; empty: unknown
	kind       string
	namespaced bool
}

// Snippet is a text to copy.
type Snippet struct{ ID, Title, Text string }

// pods are the objects that an autoscaler reads as a Pods metric.
const pods = "pods"

// labels are those of the only series, as selectors spell them.
func (h *howto) labels() map[string]string {
	values := map[string]string{}
	if h.one != nil {
		for key, value := range h.one.Labels {
			values[key] = metric.SelectorValue(value)
		}
	}
	return values
}

// get is the command that reads the metric by Sluice's client.
func (h *howto) get(command string) string {
	words := []string{command}
	if h.metric.Namespace != "" {
		words = append(words, "-n", explain.Word(metric.Visible(h.metric.Namespace)))
	}
	if h.metric.Resource == "" {
		words = append(words, "external")
	} else {
		words = append(words, explain.Word(metric.Visible(h.metric.Resource+"/"+h.objectOrAll())))
	}
	words = append(words, explain.Word(metric.Visible(h.expression.String())))
	if selector := labelText(h.labels()); selector != "" {
		words = append(words, "-l", explain.Word(metric.Visible(selector)))
	}
	return strings.Join(words, " ")
}

func (h *howto) objectOrAll() string {
	if h.object == "" {
		return metric.AllObjects
	}
	return h.object
}

// raw is the command that reads the metric by kubectl, as the autoscalers' controller does.
func (h *howto) raw(command string) string {
	escape := func(text string) string { return url.PathEscape(strings.ReplaceAll(text, "/", `\|`)) }
	name, m := escape(h.expression.String()), h.metric
	namespace := "/namespaces/" + escape(m.Namespace)
	if m.Namespace == "" {
		namespace = "/namespaces/default"
	}
	selector, path := "metricLabelSelector", ""
	switch {
	case m.Resource == "":
		selector, path = "labelSelector", "/apis/external.metrics.k8s.io/v1beta1"+namespace+"/"+name
	case m.Resource == "namespaces":
		path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/" + escape(h.objectOrAll()) + "/metrics/" + name
	default:
		if !h.namespaced && h.kind != "" {
			namespace = ""
		}
		path = "/apis/custom.metrics.k8s.io/v1beta2" + namespace + "/" + escape(m.Resource) + "/" +
			escape(h.objectOrAll()) + "/" + name
	}
	if labels := labelText(h.labels()); labels != "" {
		path += "?" + url.Values{selector: {labels}}.Encode()
	}
	return command + " get --raw " + explain.Word(path)
}

// yaml is an autoscaler that reads the metric. What it scales is a guess.
func (h *howto) yaml() string {
	m := h.metric
	kind, workload := h.workload()
	var b strings.Builder
	line := func(indent int, format string, args ...any) {
		b.WriteString(strings.Repeat("  ", indent) + fmt.Sprintf(format, args...) + "\n")
	}
	line(0, "apiVersion: autoscaling/v2")
	line(0, "kind: HorizontalPodAutoscaler")
	line(0, "metadata:")
	line(1, "name: %s", quote(workload))
	if m.Namespace != "" {
		line(1, "namespace: %s", quote(m.Namespace))
	}
	line(0, "spec:")
	line(1, "scaleTargetRef: {apiVersion: apps/v1, kind: %s, name: %s} # what to scale", kind, quote(workload))
	line(1, "minReplicas: 1")
	line(1, "maxReplicas: 10")
	line(1, "metrics:")
	source := h.source()
	line(1, "- type: %s", source)
	line(2, "%s:", strings.ToLower(source))
	if source == inspect.SourceObject {
		line(3, "describedObject: {apiVersion: %s, kind: %s, name: %s}", quote(h.apiVersion), quote(h.kind), quote(h.object))
	}
	line(3, "metric:")
	line(4, "name: %s", quote(strings.ReplaceAll(h.expression.String(), "/", `\|`)))
	if labels := h.labels(); len(labels) > 0 {
		line(4, "selector:")
		line(5, "matchLabels:")
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			line(6, "%s: %s", quote(key), quote(labels[key]))
		}
	}
	line(3, "target: %s", h.target(source))
	return b.String()
}

// source is the type of the metric of an autoscaler.
func (h *howto) source() string {
	switch h.metric.Resource {
	case "":
		return inspect.SourceExternal
	case pods:
		return inspect.SourcePods
	}
	return inspect.SourceObject
}

// target begins with the present value, or a guess if there is none. A sum is divided by the replicas; a percentile, a mean or an extreme isn't.
func (h *howto) target(source string) string {
	value, why := "10", "a guess"
	if h.value > 0 && !math.IsInf(h.value, 0) {
		why = "the present value"
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(h.value, 'g', 3, 64), 64)
		value = strconv.FormatFloat(max(rounded, 0.001), 'f', -1, 64)
	}
	if source != inspect.SourcePods && !h.stat.Additive() && h.stat != metric.Last {
		return fmt.Sprintf("{type: Value, value: %q} # %s", value, why)
	}
	return fmt.Sprintf("{type: AverageValue, averageValue: %q} # %s; of one replica", value, why)
}

// workload guesses what an autoscaler of the metric scales.
func (h *howto) workload() (kind, name string) {
	switch {
	case h.kind == "Deployment" || h.kind == "StatefulSet" || h.kind == "ReplicaSet":
		return h.kind, h.object
	case h.metric.Resource == pods && h.one != nil:
		if pieces := strings.Split(h.one.Object.Name, "-"); len(pieces) > 2 {
			return "Deployment", strings.Join(pieces[:len(pieces)-2], "-")
		} else if len(pieces) == 2 {
			return "StatefulSet", pieces[0]
		}
	}
	return "Deployment", "my-app"
}

// quote writes a text as a YAML string in double quotes.
func quote(text string) string {
	body, _ := json.Marshal(text) // of a string there is no error
	return metric.Visible(string(body))
}

// pushUDP is a command that pushes a counter by bash's file for a UDP address.
func pushUDP(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return `bash -c 'echo "http_requests:1|c" >/dev/udp/` + host + "/" + port + "'"
}

// pushHTTP is a command that pushes a gauge.
func pushHTTP(root string) string {
	return "curl -X PUT -d 42 " + root + "/v1/namespaces/shop/deployments.apps/web/queue_depth"
}

// remedy is a remedy as prose, a command, or a command behind what it is for.
type remedy struct{ Text, Command string }

// programs begin commands.
var programs = []string{"kubectl ", "sluice ", "helm ", "echo ", "curl "}

// remedies tell commands from prose.
func remedies(texts []string) (all []remedy) {
	for _, text := range texts {
		one := remedy{Text: text}
		before, after, cut := strings.Cut(text, ": ")
		for _, program := range programs {
			switch {
			case strings.HasPrefix(text, program):
				one = remedy{Command: text}
			case cut && strings.HasPrefix(after, program):
				one = remedy{before + ":", after}
			}
		}
		all = append(all, one)
	}
	return all
}

// autoscalerLink is the page of an autoscaler, "namespace/name".
func autoscalerLink(of string) string {
	namespace, name, _ := strings.Cut(of, "/")
	return address("autoscaler", "namespace", namespace, "name", name)
}

// snippets are the texts to copy.
func (h *howto) snippets(get, kubectl string) []Snippet {
	all := []Snippet{{"get", "Read it", h.get(get)}, {"raw", "As the autoscalers' controller reads it", h.raw(kubectl)}}
	if h.source() != inspect.SourceObject || h.object != "" && h.kind != "" {
		all = append(all, Snippet{"yaml", "An autoscaler that reads it", h.yaml()})
	}
	return all
}
