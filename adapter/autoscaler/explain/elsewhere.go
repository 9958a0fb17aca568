package explain

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// judgeElsewhere is the finding about a metric that exists in other namespaces only: who pushes it there,
// and what lets that sender push it here (docs/push-auth.md).
func (f *Facts) judgeElsewhere(m *inspect.AutoscalerMetric, bare string, elsewhere []inspect.Metric, out *Finding) {
	here := f.Autoscaler.Namespace
	out.Cause = OtherNamespace
	out.Text = fmt.Sprintf("%s exists in namespace %s, not in %s: an autoscaler reads its own namespace only", bare,
		namespaces(elsewhere), here)
	from := elsewhere[0].Namespace
	var senders []inspect.MetricSender
	for _, sender := range f.Senders {
		if sender.Metric == from {
			senders = append(senders, sender)
		}
	}
	if len(senders) > 0 {
		out.Text += ". In " + from + " it is pushed by " + sendersText(senders)
	}
	if m.Source == sourcePods {
		out.Remedy = []string{fmt.Sprintf("kubectl logs -n %s %s/%s  # do its own pods push %s?", here,
			strings.ToLower(f.Autoscaler.TargetKind),
			f.Autoscaler.TargetName, bare), "sluice list refused -n " + here}
		return
	}
	path := "external/" + url.PathEscape(bare)
	if m.Source == sourceObject {
		resource := f.readingOf(m).Resource
		if resource == "" {
			resource = strings.ToLower(m.ObjectKind)
		}
		path = resource + "/" + url.PathEscape(m.ObjectName) + "/" + url.PathEscape(bare)
	}
	subject, account := subjectOfSender(senders, from)
	if account == "" { // an address has no rights of its own
		out.Remedy = []string{"If it is one of trusted-forwarders, add the label " + claimOf(m, path, here) +
			" to its lines (docs/identity.md)", "sluice list senders -n " + from}
		return
	}
	out.Text += fmt.Sprintf(". To push it for %s, %s needs the right to create samples.sluice.dev there", here, account)
	out.Remedy = []string{
		applying(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
			"metadata": map[string]any{"name": pushRole, "namespace": here},
			"rules": []any{map[string]any{"apiGroups": []string{"sluice.dev"}, "resources": []string{"samples"},
				"verbs": []string{"create"}}}}),
		fmt.Sprintf("kubectl create rolebinding %s-%s -n %s --role=%s %s", pushRole, from, here, pushRole, subject),
		fmt.Sprintf(`curl -X PUT -H "Authorization: Bearer $(cat /var/run/secrets/sluice/token)" -d VALUE %s  # from there; needs config.push-auth=token and push.tlsSecret (docs/push-auth.md)`,
			Word("https://SLUICE:9091/v1/namespaces/"+here+"/"+path)),
	}
}

// pushRole is the name of a Role that allows to push.
const pushRole = "sluice-pushers"

// subjectOfSender is the newest sender that can have a right, as an argument of kubectl and in words; an
// unknown one is for its reader to fill in. account is empty if all senders are addresses.
func subjectOfSender(senders []inspect.MetricSender, namespace string) (subject, account string) {
	if len(senders) == 0 {
		return "--serviceaccount=" + namespace + ":ACCOUNT", "the service account of its sender (sluice list senders -n " +
			namespace + ")"
	}
	for _, sender := range senders {
		switch {
		case sender.Sort == "address":
		case sender.Account != "":
			return "--serviceaccount=" + sender.Namespace + ":" + sender.Account, "service account " +
				sender.Namespace + ":" + sender.Account
		case sender.Sort == "pod":
			return "--serviceaccount=" + sender.Namespace + ":default", "service account " + sender.Namespace + ":default"
		case sender.Namespace != "":
			return "--serviceaccount=" + Word(sender.Namespace+":"+sender.Name),
				"service account " + sender.Namespace + ":" + sender.Name
		default:
			return "--user=" + Word(sender.Name), "user " + sender.Name
		}
	}
	return "", ""
}

// claimOf is the label by which a line describes an external metric or an object of a namespace.
func claimOf(m *inspect.AutoscalerMetric, path, namespace string) string {
	if m.Source == sourceObject {
		object := path[:strings.LastIndex(path, "/")]
		return "sluice_object:" + object + " and the label namespace:" + namespace
	}
	return "sluice_object:external/" + namespace
}
