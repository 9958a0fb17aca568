package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
)

// Causes that a ScaledObject may have beside those of its autoscaler.
const (
	TriggerMetadata       Cause = "trigger-metadata"       // Sluice refuses it
	TriggerAddress        Cause = "trigger-address"        // leads nowhere
	TriggerAuthentication Cause = "trigger-authentication" // missing
	TriggerCertificate    Cause = "trigger-certificate"    // one end refuses the other's
	TriggerSettings       Cause = "trigger-settings"       // works, and not as one expects
	KEDAState             Cause = "keda-state"             // paused, fallback, not ready
)

// findings looks for the faults of triggers and of KEDA. The first fault of a trigger hides the rest.
func (f *ScaledObjectFacts) findings(triggers []TriggerReport) (out []Finding) {
	if finding := f.judgeGroup(); finding != nil {
		out = append(out, *finding)
	}
	for i := range f.Triggers {
		if t := &f.Triggers[i]; t.ofSluice() {
			if finding := f.judgeTrigger(i, &triggers[i]); finding != nil {
				out = append(out, *finding)
			}
			out = append(out, f.judgeSettings(i)...)
		}
	}
	return append(out, f.judgeKEDA(len(out) > 0)...)
}

// judgeGroup looks at the owner of external.metrics.k8s.io, which must be KEDA: from 1 to N, the
// autoscaler asks there.
func (f *ScaledObjectFacts) judgeGroup() *Finding {
	const fromOne = "KEDA's autoscalers get no value, so they don't scale beyond the first replica"
	switch api := f.External; {
	case api == nil || api.Available && (api.Owner == "KEDA" || api.Sluice && f.routed()):
		return nil
	case !api.Exists:
		return &Finding{Cause: NotRegistered, Text: "external.metrics.k8s.io is not registered: " + fromOne,
			Remedy: []string{"helm upgrade keda kedacore/keda -n keda  # registers KEDA's adapter"}}
	case api.Sluice:
		return &Finding{Cause: NotRegistered, Text: fmt.Sprintf("external.metrics.k8s.io belongs to Sluice (%s): %s",
			api.Service, fromOne),
			Remedy: []string{"In the values of Sluice's chart: externalMetrics.route, with KEDA as a provider that has scaledObjects: true",
				"Or give the group back: helm upgrade … --set externalMetrics.register=false  # Sluice then serves it without registering it",
				"helm upgrade keda kedacore/keda -n keda  # registers KEDA's adapter"}}
	case api.Owner == "KEDA":
		return &Finding{Cause: Unavailable, Text: fmt.Sprintf("KEDA's adapter (%s) is not available (%s): %s", api.Service,
			api.Reason, api.Message),
			Remedy: []string{"kubectl get pods -n keda", "kubectl logs -n keda deployment/keda-operator-metrics-apiserver"}}
	}
	return nil // another name for KEDA's adapter, perhaps
}

// routed reports whether Sluice forwards the metrics of KEDA's autoscaler.
func (f *ScaledObjectFacts) routed() bool {
	return f.Autoscaler != nil && slices.ContainsFunc(f.Autoscaler.Autoscaler.Metrics, func(m inspect.AutoscalerMetric) bool {
		return m.Provider != ""
	})
}

// judgeTrigger looks for the fault of one trigger.
func (f *ScaledObjectFacts) judgeTrigger(i int, r *TriggerReport) *Finding {
	t := &f.Triggers[i]
	edit := fmt.Sprintf("kubectl edit scaledobject -n %s %s  # spec.triggers[%d]", f.Namespace, f.Name, i)
	out := &Finding{Metric: fmt.Sprintf("trigger %d", i), Remedy: []string{edit}}
	switch said := f.said(r, connectionSigns...); {
	case len(t.Faults) > 0:
		out.Cause, out.Text = TriggerMetadata, "Sluice refuses the metadata: "+strings.Join(t.Faults, "; ")
	case t.AddressFault != "":
		out.Cause, out.Text = TriggerAddress, t.AddressFault
		out.Remedy = []string{"kubectl get services -A -l app.kubernetes.io/component=keda", edit}
	case t.AuthenticationMissing:
		out.Cause, out.Text = TriggerAuthentication, "authenticationRef names "+t.Authentication+", which does not exist"
		out.Remedy = []string{"kubectl get clustertriggerauthentications",
			"helm upgrade … --set keda.enabled=true,keda.authentication.create=true", restartKEDA}
	case said != "":
		f.judgeMessage(t, said, out)
	case r.Value != "" || f.judgeGroup() != nil:
		return nil
	case !t.Asks.AbsentIsZero && (f.said(r, "code = NotFound") != "" || f.has(&t.Asks) == noSeries):
		f.judgeAbsent(t, out)
	case r.Fault == "":
		return nil
	default:
		f.judgeRejection(r, out)
	}
	return out
}

// judgeRejection says why Sluice refuses a trigger whose metadata is well formed. KEDA's Event has its words.
func (f *ScaledObjectFacts) judgeRejection(r *TriggerReport, out *Finding) {
	if denied := deniedBy.FindStringSubmatch(f.said(r, "code = PermissionDenied")); denied != nil {
		finding, edit := ofPolicy(out.Metric, denied, "a policy denies the trigger its metric: "+denied[0]), out.Remedy
		if denied[1] != "" {
			finding.Remedy = append(finding.Remedy[:1], fmt.Sprintf("In the trigger: a selector within %q", denied[1]))
			finding.Remedy = append(finding.Remedy, edit...)
		}
		*out = finding
		return
	}
	if invalid := f.said(r, "code = InvalidArgument"); invalid != "" &&
		!strings.Contains(invalid, "metadata of the trigger") { // those are mended since
		out.Cause, out.Text = TriggerMetadata, "Sluice refuses what the trigger asks for: "+heart(invalid)
		return
	}
	out.Cause, out.Text = KEDA, "KEDA's adapter has no value: "+heart(r.Fault)
	out.Remedy = []string{operatorLog}
}

const operatorLog = "kubectl logs -n keda deployment/keda-operator --since=10m | grep -i external"

// restartKEDA makes KEDA read credentials anew. Mended ones alone do not: it keeps the scalers of a
// ScaledObject until its spec changes, and a stream that broke meanwhile never comes back.
const restartKEDA = "kubectl rollout restart -n keda deployment/keda-operator  # KEDA keeps the former credentials until then"

// said is a message with one of the signs: in the answer, in a condition or in an Event that is not
// old. KEDA's adapter says only that it failed; the Event has the scaler's words. Empty: nothing.
func (f *ScaledObjectFacts) said(r *TriggerReport, signs ...string) string {
	texts := []string{r.Fault}
	if r.Value == "" {
		for _, c := range f.Conditions {
			texts = append(texts, c.Message)
		}
		for _, e := range f.Events {
			if e.Warning && f.Now.Sub(e.Last) < recent {
				texts = append(texts, e.Message)
			}
		}
	}
	for _, text := range texts {
		if slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(text, sign) }) {
			return text
		}
	}
	return ""
}

// connectionSigns are parts of the messages about a connection that failed, of gRPC 1.84 and of Go.
var connectionSigns = []string{
	"x509: ", "tls: ", "error reading server preface", "connection refused", "no such host", "i/o timeout",
	"Sluice is starting", "produced zero addresses",
}

// heart is the last part of a message of gRPC: the rest says which layers it came through.
func heart(message string) string {
	if i := strings.LastIndex(message, "desc = "); i >= 0 {
		message = strings.TrimPrefix(strings.Trim(message[i+len("desc = "):], `"`), "transport: ")
	}
	return message
}

// judgeMessage tells apart why KEDA and Sluice don't connect.
func (f *ScaledObjectFacts) judgeMessage(t *TriggerFacts, said string, out *Finding) {
	out.Cause = TriggerCertificate
	has := func(sign string) bool { return strings.Contains(said, sign) }
	authentication := t.Authentication
	if authentication == "" {
		authentication = "the trigger's authenticationRef, which is missing"
	}
	switch {
	case has("Sluice is starting"):
		out.Cause, out.Text = Unavailable, "Sluice does not answer yet: "+heart(said)
		out.Remedy = []string{"kubectl get pods -A -l app.kubernetes.io/name=sluice"}
	case has("x509: certificate is valid for"), has("x509: certificate is not valid for any names"):
		out.Text = fmt.Sprintf("the host of scalerAddress (%s) is no name of Sluice's certificate: %s",
			t.Address, heart(said))
		out.Remedy = append(out.Remedy, "Use dns:///SERVICE.NAMESPACE.svc:9095, as the chart's notes have it: helm get notes …")
	case has("x509: "):
		out.Text = fmt.Sprintf("KEDA does not accept Sluice's certificate: caCert of %s is of another authority, or the certificate ended (%s)", authentication, heart(said))
		out.Remedy = renewCertificates(t)
	case has("tls: first record does not look like"):
		out.Text = "KEDA speaks TLS, and Sluice does not (keda-insecure)"
		out.Remedy = []string{"helm upgrade … --set keda.enabled=true"}
	case has("tls: "), has("error reading server preface"):
		out.Text = fmt.Sprintf("Sluice refuses KEDA's certificate: tlsClientCert of %s is not of keda-tls-client-ca-file, or has none of keda-client-names", authentication)
		out.Remedy = append([]string{"In Sluice's log: refused a connection of KEDA  # says why"}, renewCertificates(t)...)
	default:
		out.Cause, out.Text = TriggerAddress, fmt.Sprintf("KEDA does not reach %s: %s", t.Address, heart(said))
		out.Remedy = []string{"kubectl get services,endpointslices -A -l app.kubernetes.io/component=keda",
			"A NetworkPolicy must let KEDA's namespace in (keda.namespace)"}
	}
}

// renewCertificates makes both ends of the port anew.
func renewCertificates(t *TriggerFacts) []string {
	service, ok := ServiceOf(t.Address)
	if !ok {
		service = Service{Namespace: "sluice", Name: "sluice-keda"}
	}
	return []string{
		fmt.Sprintf("kubectl delete secret -n %s %s-tls && helm upgrade …  # with keda.tls.source generated: makes both ends anew",
			service.Namespace, strings.TrimSuffix(service.Name, "-headless")),
		restartKEDA,
	}
}

// judgeAbsent says why a metric has no value for a trigger whose absence is an error.
func (f *ScaledObjectFacts) judgeAbsent(t *TriggerFacts, out *Finding) {
	out.Cause = NeverPushed
	name := metric.BareName(t.Asks.Metric)
	out.Text = fmt.Sprintf("%s has no value in %s, which is an error for this trigger", name, f.Namespace)
	out.Remedy = []string{fmt.Sprintf("sluice explain -n %s %s", f.Namespace, name),
		`In the trigger: absent: "0", if no value means nothing to do`}
	here := f.here(&t.Asks)
	if len(here) > 0 && !sameResource(here[0].Resource, t.Asks.resource()) {
		out.Cause = OtherKind
		out.Text = fmt.Sprintf("%s exists here %s; the trigger asks for it %s", name, onResource(here[0].Resource),
			onResource(t.Asks.resource()))
		out.Remedy = []string{"In the trigger: object: " + objectOf(here[0].Resource)}
		return
	}
	if len(here) > 0 && t.Asks.Selector != "" {
		out.Cause = SelectorEmpty
		out.Text = fmt.Sprintf("the selector %s selects no series of %s with a value", t.Asks.Selector, name)
		return
	}
	var elsewhere []inspect.Metric
	var names []string
	for _, m := range f.Metrics {
		switch {
		case m.Namespace == f.Namespace || m.Namespace == "":
			names = append(names, m.Name)
		case m.Name == name:
			elsewhere = append(elsewhere, m)
		}
	}
	if len(elsewhere) > 0 {
		out.Cause = OtherNamespace
		out.Text = fmt.Sprintf("%s exists in namespace %s, not in %s: a trigger reads its own namespace only", name,
			namespaces(elsewhere), f.Namespace)
		out.Remedy = []string{"Push it for " + f.Namespace +
			": from a pod there, or with the namespace in the push (docs/identity.md)"}
	} else if near := suggest.Nearest(name, names); near != "" {
		out.Text += "; did you mean " + near + "?"
	}
}

// objectOf is the metadata's word for objects of a resource.
func objectOf(resource string) string {
	switch resource {
	case "":
		return "external"
	case "pods":
		return "pods"
	case "namespaces":
		return "namespace"
	}
	return resource + "/NAME"
}

// mostEvents bounds the printed Events.
const mostEvents = 5

// WriteText prints a report for people.
func (r *ScaledObjectReport) WriteText(w io.Writer, now time.Time) error {
	p := printer{w: w, now: now}
	present := "an unknown number of replicas"
	if r.Replicas != nil {
		present = replicas(*r.Replicas)
	}
	p.line("scaledobject/%s in %s scales %s/%s: %s now, %d to %d allowed", r.Name, r.Namespace, r.TargetKind, r.TargetName,
		present, r.MinReplicas, r.MaxReplicas)
	p.findings(&Report{Findings: r.Findings})
	for i := range r.Triggers {
		p.trigger(&r.Triggers[i])
	}
	if r.Formula != "" {
		p.line("")
		p.line("KEDA joins the triggers by a formula: %s", r.Formula)
	}
	if a := r.Autoscaler; a != nil {
		p.autoscalerOfKEDA(a)
	}
	p.events(r.Events)
	p.unknown(r.Unknown)
	return p.err
}

func (p *printer) trigger(t *TriggerReport) {
	p.line("")
	name := ""
	if t.Name != "" {
		name = " (" + t.Name + ")"
	}
	if t.Asks == "" {
		p.line("Trigger %d%s, %s: not from Sluice", t.Index, name, t.Type)
		return
	}
	p.line("Trigger %d%s, %s: %s", t.Index, name, t.Type, t.Asks)
	if t.Has != "" {
		p.line("  Sluice has  %s", t.Has)
	}
	switch {
	case t.Fault != "":
		p.line("  KEDA gets   no value: %s", heart(t.Fault))
	case t.Value != "" && *t.Active:
		p.line("  KEDA gets   %s: active", t.Value)
	case t.Value != "":
		p.line("  KEDA gets   %s: not active", t.Value)
	default:
		p.line("  KEDA gets   unknown")
	}
}

func (p *printer) autoscalerOfKEDA(a *Report) {
	p.line("")
	p.line("Autoscaler hpa/%s, made by KEDA", a.Autoscaler.Name)
	for i := range a.Metrics {
		m := &a.Metrics[i]
		p.line("  %s, target %s", m.Name, a.Autoscaler.Metrics[i].Target)
		for _, s := range m.Steps {
			p.line("    %s", s)
		}
	}
	p.decision(&a.Decision)
}

// events prints the newest Events with a warning.
func (p *printer) events(all []ObjectEvent) {
	printed := 0
	for _, e := range all {
		if !e.Warning || printed == mostEvents {
			continue
		}
		if printed++; printed == 1 {
			p.line("")
			p.line("Events of KEDA")
		}
		p.line("  %s ago, %d ×: %s: %s", age(p.now.Sub(e.Last)), max(e.Count, 1), e.Reason, e.Message)
	}
}
