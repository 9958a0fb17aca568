package explain

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
)

// findings looks for the causes. A metric without a value has one cause, because the first one hides
// the rest; a metric with values, and the autoscaler as a whole, may have several.
func (f *Facts) findings(metrics []MetricReport) []Finding {
	out := f.judgeZeroReplicas()
	for _, group := range []string{CustomGroup, ExternalGroup} {
		if finding := f.judgeAPI(group); finding != nil && f.asksOf(group) {
			out = append(out, *finding)
		}
	}
	out = append(out, f.judgeUnheard(metrics)...)
	out = append(out, f.judgeController()...)
	out = append(out, f.judgePolicies()...)
	out = append(out, f.judgeOwnRights()...)
	for i := range metrics {
		m := &f.Autoscaler.Metrics[i]
		out = append(out, f.judgeAgents(i, metrics)...)
		for _, finding := range []*Finding{f.judgeTarget(m), f.judgePods(i, metrics), f.judgeRejectedSeries(i, metrics),
			f.judgeMetric(i, &metrics[i]), f.judgeShadowed(m)} {
			if finding != nil && !known(out, finding) {
				out = append(out, *finding)
			}
		}
	}
	out = append(out, f.judgeAutoscaler(metrics)...)
	out = append(out, f.judgeStatus(metrics, out)...)
	slices.SortStableFunc(out, gravestFirst)
	return out
}

func gravestFirst(a, b Finding) int {
	switch {
	case a.Warning == b.Warning:
		return 0
	case a.Warning:
		return 1
	}
	return -1
}

// known reports whether a finding about a whole API says the same already.
func known(all []Finding, finding *Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Cause == finding.Cause && f.Text == finding.Text })
}

func (f *Facts) asksOf(group string) bool {
	return slices.ContainsFunc(f.Autoscaler.Metrics, func(m inspect.AutoscalerMetric) bool {
		return GroupOf(m.Source) == group && (!ofKEDA(&m) || m.Provider != "")
	})
}

// ofKEDA reports whether KEDA's adapter answers a metric: KEDA selects its own metrics by this label.
func ofKEDA(m *inspect.AutoscalerMetric) bool {
	return m.Source == sourceExternal && strings.Contains(m.Selector, "scaledobject.keda.sh/name")
}

// valueOf is the chart's value that registers a group.
func valueOf(group string) string {
	if group == CustomGroup {
		return "customMetrics.enabled"
	}
	return "externalMetrics.enabled"
}

// judgeAPI looks for a fault of a whole API.
func (f *Facts) judgeAPI(group string) *Finding {
	api, is := f.APIs[group]
	if !is {
		return nil
	}
	version := api.Name
	switch {
	case version != "":
	case group == CustomGroup:
		version = "v1beta2." + group
	default:
		version = "v1beta1." + group
	}
	switch {
	case !api.Exists:
		return &Finding{Cause: NotRegistered, Text: fmt.Sprintf("%s is not registered: there is no APIService %s",
			group, version),
			Remedy: []string{"helm upgrade … --set " + valueOf(group) + "=true"}}
	case !api.Sluice:
		owner := api.Service
		if api.Owner != "" {
			owner = api.Owner + " (" + api.Service + ")"
		}
		return &Finding{Cause: NotRegistered, Text: fmt.Sprintf("%s belongs to %s, which knows no metric of Sluice",
			group, owner),
			Remedy: []string{"Let Sluice answer: kubectl delete apiservice " + version + " && helm upgrade … --set " +
				valueOf(group) + "=true",
				"Or leave the group to its owner, and ask for " + otherWay(group)}}
	case api.Available:
		return nil
	case api.Certificate != "":
		return &Finding{Cause: Unavailable, Text: fmt.Sprintf("%s is not available: %s", group, api.Certificate),
			Remedy: []string{"kubectl get apiservice " + version +
				" -o jsonpath='{.spec.caBundle}' | base64 -d | openssl x509 -noout -subject -enddate",
				"helm upgrade …  # writes the certificate and caBundle anew, if tls.source is generated"}}
	case unreachable(api.Message):
		return &Finding{Cause: Unreachable, Text: fmt.Sprintf("the API server can't reach %s, which answers for %s: %s",
			api.Service, group, ending(api.Message)),
			Remedy: []string{remedyOfPort(&api), "kubectl get --raw /apis/" + group + "/" + strings.TrimSuffix(version,
				"."+group) + "  # answers once it can"}}
	}
	return &Finding{Cause: Unavailable, Text: fmt.Sprintf("%s is not available (%s): %s", group, api.Reason, api.Message),
		Remedy: []string{"kubectl get apiservice " + version + " -o yaml",
			"kubectl get pods -A -l app.kubernetes.io/name=sluice"}}
}

// ending is the end of a nested message, without the addresses before it.
func ending(message string) string {
	if i := strings.LastIndex(message, `": `); i >= 0 {
		return message[i+len(`": `):]
	}
	return message
}

// remedyOfPort is what opens the way from the API server to the port.
func remedyOfPort(api *API) string {
	if strings.Contains(api.Message, "connection refused") {
		namespace, name, _ := strings.Cut(api.Service, "/")
		name, _, _ = strings.Cut(name, ":")
		return fmt.Sprintf("kubectl get -n %s service/%s endpointslices  # does the APIService's port lead to Sluice's api-address?", namespace, name)
	}
	return "Allow the control plane to connect to the pods' API port: a firewall rule (GKE, EKS, private clusters) or a NetworkPolicy"
}

func otherWay(group string) string {
	if group == ExternalGroup {
		return "a metric of an object (type Object or Pods), which custom.metrics.k8s.io answers"
	}
	return "an external metric (type External), which external.metrics.k8s.io answers"
}

// unreachable reports whether the message of an APIService is about the connection.
func unreachable(message string) bool {
	for _, sign := range []string{"timeout", "deadline exceeded", "connection refused", "no route to host", "EOF",
		"awaiting headers", "connection reset"} {
		if strings.Contains(message, sign) {
			return true
		}
	}
	return false
}

// judgeMetric looks for the cause of a metric without a value.
func (f *Facts) judgeMetric(i int, r *MetricReport) *Finding {
	m := &f.Autoscaler.Metrics[i]
	reading := f.reading(i)
	if r.Foreign || !reading.Asked || r.Unreadable {
		return nil
	}
	if reading.Fault == "" && len(reading.Values) > 0 {
		return nil
	}
	switch {
	case m.Provider != "" && (m.ProviderFault != "" || !ofKEDA(m)):
		return f.judgeProvider(m, reading)
	case ofKEDA(m):
		return f.judgeScaler(m, reading)
	}
	if f.judgeAPI(GroupOf(m.Source)) != nil {
		return nil // a finding of its own
	}
	out := &Finding{Metric: m.Name}
	bare := metric.BareName(m.Name)
	switch {
	case noAPI(reading):
		out.Cause = NotRegistered
		out.Text = GroupOf(m.Source) + " is not registered, or its server isn't Sluice: " + reading.Fault
		out.Remedy = []string{"kubectl get apiservices | grep metrics.k8s.io"}
	case reading.Code != http.StatusNotFound && reading.Code != http.StatusBadRequest:
		out.Cause = Unavailable
		out.Text = GroupOf(m.Source) + " gives no answer: " + reading.Fault
		out.Remedy = []string{"kubectl get apiservices | grep metrics.k8s.io",
			"kubectl get pods -A -l app.kubernetes.io/name=sluice"}
	case reading.Code == http.StatusBadRequest:
		out.Cause = OtherKind
		out.Text = reading.Fault
		out.Remedy = []string{"In the autoscaler: metric.name: " + bare + ":STAT, with a stat from above",
			"Who pushes it as what: sluice explain -n " + f.Autoscaler.Namespace + " " + Word(bare)}
	case f.rule(i) != nil:
		f.rule(i).without(f.Autoscaler.Namespace, reading, out)
	case f.Metrics == nil:
		out.Cause = NeverPushed
		out.Text = fmt.Sprintf("%s has no value here: %s", bare, reading.Fault)
		out.Remedy = []string{"sluice list metrics -n " + f.Autoscaler.Namespace}
	default:
		f.judgeName(m, bare, i, out)
	}
	return out
}

// noAPI reports whether the API server knows no such API: its own 404 names no metric.
func noAPI(r *Reading) bool {
	return r.Code == http.StatusNotFound && strings.Contains(r.Fault, "could not find the requested resource")
}

// judgeProvider is the finding about a metric that Sluice forwards to another provider.
func (f *Facts) judgeProvider(m *inspect.AutoscalerMetric, r *Reading) *Finding {
	out := &Finding{Cause: Provider, Metric: m.Name, Text: "no value: " + r.Fault,
		Remedy: []string{"Look at the provider " + m.Provider + ": whether it has the metric, its log, its pods and its Service"}}
	if m.ProviderFault != "" {
		out.Text = fmt.Sprintf("Sluice forwards the metric to the provider %s, which %s", m.Provider, m.ProviderFault)
		namespace, _, _ := strings.Cut(f.APIs[ExternalGroup].Service, "/")
		out.Remedy = append(out.Remedy, "kubectl logs -n "+namespace+" -l app.kubernetes.io/name=sluice | grep 'provider of external metrics'  # since when",
			"In the values of Sluice's chart: externalMetrics.route, its Service and its authority")
	}
	return out
}

// judgeShadowed notes series of Sluice's own that nobody reads, because another provider has the name.
func (f *Facts) judgeShadowed(m *inspect.AutoscalerMetric) *Finding {
	bare := metric.BareName(m.Name)
	own := func(n inspect.Metric) bool {
		return n.Name == bare && n.Resource == "" && (n.Namespace == f.Autoscaler.Namespace || n.Namespace == "")
	}
	if m.Provider == "" || ofKEDA(m) || !slices.ContainsFunc(f.Metrics, own) {
		return nil
	}
	return &Finding{Cause: Shadowed, Metric: m.Name, Warning: true,
		Text:   fmt.Sprintf("%s is pushed to Sluice, too, and read from the provider %s alone: the route has its name", bare, m.Provider),
		Remedy: []string{"In the values of Sluice's chart: externalMetrics.route, with patterns that leave the name out"}}
}

// judgeScaler is the finding about a metric that KEDA's adapter has no value for.
func (f *Facts) judgeScaler(m *inspect.AutoscalerMetric, r *Reading) *Finding {
	name := f.Autoscaler.ScaledObject
	out := &Finding{Cause: KEDA, Metric: m.Name,
		Text: "KEDA's adapter answers this metric, as it should, and has no value: " + r.Fault,
		Remedy: []string{fmt.Sprintf("kubectl describe scaledobject -n %s %s", f.Autoscaler.Namespace, name),
			"kubectl logs -n keda deployment/keda-operator"}}
	if trigger := f.triggerOf(m); trigger.Metric != "" {
		out.Text += ". The trigger asks Sluice for " + trigger.Metric
		out.Remedy = append([]string{fmt.Sprintf("sluice explain -n %s %s", f.Autoscaler.Namespace,
			Word(metric.BareName(trigger.Metric)))}, out.Remedy...)
	}
	return out
}

// triggerOf is the trigger of a metric: KEDA names metrics "s0-…", "s1-…" by the place of the trigger.
func (f *Facts) triggerOf(m *inspect.AutoscalerMetric) Trigger {
	place, _, _ := strings.Cut(strings.TrimPrefix(m.Name, "s"), "-")
	if i, err := strconv.Atoi(place); err == nil && i >= 0 && i < len(f.Triggers) {
		return f.Triggers[i]
	}
	return Trigger{}
}

// judgeName tells apart why a name has no value: selector, kind of object, namespace, spelling.
func (f *Facts) judgeName(m *inspect.AutoscalerMetric, bare string, i int, out *Finding) {
	reading, wanted := f.reading(i), resourceOf(m)
	if reading.Resource != "" {
		wanted = reading.Resource
	}
	var here, otherKind, elsewhere []inspect.Metric
	for _, pushed := range f.Metrics {
		switch {
		case pushed.Name != bare:
		case pushed.Namespace != f.Autoscaler.Namespace && pushed.Namespace != "":
			elsewhere = append(elsewhere, pushed)
		case sameResource(pushed.Resource, wanted):
			here = append(here, pushed)
		default:
			otherKind = append(otherKind, pushed)
		}
	}
	switch {
	case len(here) > 0 && m.Selector != "":
		f.judgeSelector(m, i, out)
	case len(here) > 0 && m.Source == sourceObject:
		out.Cause = NeverPushed
		out.Text = fmt.Sprintf("%s exists for %s, but not for %s %s", bare, count(here[0].Objects, "other object"),
			m.ObjectKind, m.ObjectName)
		out.Remedy = []string{fmt.Sprintf("sluice get -n %s %s/'*' %s", f.Autoscaler.Namespace, here[0].Resource, Word(bare))}
	case len(here) > 0:
		out.Cause = PodsMissing
		out.Text = fmt.Sprintf("%s exists here, but not as it is asked for: %s", bare, reading.Fault)
		out.Remedy = []string{fmt.Sprintf("sluice explain -n %s %s", f.Autoscaler.Namespace, Word(bare))}
	case f.judgeTargets(m, out):
	case len(otherKind) > 0:
		out.Cause = OtherKind
		out.Text = fmt.Sprintf("%s exists here %s; the autoscaler asks for it %s", bare, onResource(otherKind[0].Resource),
			onResource(wanted))
		out.Remedy = []string{"In the autoscaler: " + metricType(otherKind[0].Resource)}
	case len(elsewhere) > 0:
		f.judgeElsewhere(m, bare, elsewhere, out)
	case strings.Contains(reading.Fault, "last seen"):
		out.Cause = NeverPushed
		out.Text = bare + " is not pushed any more: " + reading.Fault
		out.Remedy = []string{"See whether its pushers still run; a longer ttl bridges pauses (docs/lifetimes.md)"}
	default:
		f.judgeSpelling(i, bare, strings.Contains(reading.Fault, "none was ever received"), out)
	}
}

// judgeSelector lists the label sets that there are.
func (f *Facts) judgeSelector(m *inspect.AutoscalerMetric, i int, out *Finding) {
	out.Cause = SelectorEmpty
	out.Text = fmt.Sprintf("the selector %s selects no series of %s", m.Selector, metric.BareName(m.Name))
	if i >= len(f.Sets) || len(f.Sets[i]) == 0 {
		return
	}
	var sets []string
	for _, s := range f.Sets[i] {
		if text := labelText(s.Labels); !slices.Contains(sets, text) {
			sets = append(sets, text)
		}
	}
	const maxShown = 5
	more := ""
	if len(sets) > maxShown {
		more = fmt.Sprintf(" and %d more", len(sets)-maxShown)
		sets = sets[:maxShown]
	}
	out.Text += ". There are: " + strings.Join(sets, "; ") + more
	out.Remedy = []string{f.patch(i, "selector", map[string]any{"matchLabels": selectorValues(f.Sets[i][0].Labels)})}
}

// judgeSpelling is about a name that Sluice doesn't have. Never: it never had it.
func (f *Facts) judgeSpelling(i int, bare string, never bool, out *Finding) {
	m := &f.Autoscaler.Metrics[i]
	out.Cause = NeverPushed
	var names []string
	for _, one := range f.Metrics {
		if (one.Namespace == f.Autoscaler.Namespace || one.Namespace == "") && !slices.Contains(names, one.Name) {
			names = append(names, one.Name)
		}
	}
	if near := suggest.Nearest(bare, names); near != "" {
		out.Text = fmt.Sprintf("%s was never pushed in %s; did you mean %s?", bare, f.Autoscaler.Namespace, near)
		out.Remedy = []string{f.patch(i, "name", strings.Replace(m.Name, bare, near, 1))}
		return
	}
	out.Text = fmt.Sprintf("%s was never pushed in %s", bare, f.Autoscaler.Namespace)
	if !never {
		out.Text += ", or has expired"
	}
	for i := range f.Rejections {
		if r := &f.Rejections[i]; r.Metric == bare {
			out.Text = fmt.Sprintf("%s was pushed by %s, but %s", bare, r.Sender, wordsOfRejection(r))
			if out.Remedy = []string{"sluice list refused -n " + f.Autoscaler.Namespace}; r.Reason == byLimit {
				out.Remedy = f.toRaise(m)
			}
			return
		}
	}
	out.Remedy = []string{"sluice list metrics -n " + f.Autoscaler.Namespace,
		"sluice list refused -n " + f.Autoscaler.Namespace}
}
