package explain

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// judgeController looks for rights that the HPA controller lacks.
func (f *Facts) judgeController() []Finding {
	var out []Finding
	denied := f.ControllerDenied
	if len(denied) == 0 {
		denied = f.deniedByStatus()
	}
	for _, right := range denied {
		out = append(out, Finding{Cause: RightMissing, Warning: f.active() == "True",
			Text: fmt.Sprintf("the HPA controller (%s) may not %s %s in %s", inspect.ControllerUser, right.Verb,
				f.onGroup(right), f.Autoscaler.Namespace),
			Remedy: append(f.makeRole(right),
				"kubectl create clusterrolebinding hpa-reads-"+shortName(right.Group)+" --clusterrole="+f.role(right.Group)+
					" --serviceaccount="+inspect.ControllerAccount),
		})
	}
	return out
}

// controllerRefused finds the right in the message of an autoscaler's condition.
var controllerRefused = regexp.MustCompile(`User "` + inspect.ControllerUser +
	`" cannot (\w+) resource "([^"]*)" in API group "([^"]*)"`)

// deniedByStatus is the right that the controller lacks by its own message, which whoever sees the
// autoscaler may read.
func (f *Facts) deniedByStatus() []Right {
	c := f.condition("ScalingActive")
	if c == nil || c.Status != "False" {
		return nil
	}
	m := controllerRefused.FindStringSubmatch(c.Message)
	if m == nil {
		return nil
	}
	return []Right{{Verb: m[1], Resource: m[2], Group: m[3]}}
}

func (f *Facts) onGroup(r Right) string { return r.Resource + " of " + r.Group }

func shortName(group string) string { return strings.TrimSuffix(group, ".k8s.io") }

// role is the role to bind: the chart's, else one that makeRole makes.
func (f *Facts) role(group string) string {
	if f.ReaderRole != "" {
		return f.ReaderRole
	}
	return "reads-" + shortName(group)
}

// makeRole is the command that makes a role, if the chart's is not known.
func (f *Facts) makeRole(r Right) []string {
	if f.ReaderRole != "" {
		return nil
	}
	return []string{"kubectl create clusterrole " + f.role(r.Group) + " --verb=get,list --resource='*." + r.Group + "'"}
}

// refused finds the user in the API server's message about a missing right.
var refused = regexp.MustCompile(`User "([^"]*)"`)

// judgeOwnRights is a note about metrics that the person who asks may not read.
func (f *Facts) judgeOwnRights() []Finding {
	for i := range f.Autoscaler.Metrics {
		r := f.reading(i)
		if r.Code != http.StatusForbidden || f.deniedByPolicy(i) != nil {
			continue
		}
		who, subject := "you", "--user=YOU"
		if found := refused.FindStringSubmatch(r.Fault); found != nil {
			who, subject = "you ("+found[1]+")", subjectOf(found[1])
		}
		right := Right{Group: GroupOf(f.Autoscaler.Metrics[i].Source)}
		return []Finding{{Cause: RightMissing, Warning: true,
			Text: who + " may not read the metrics of " + f.Autoscaler.Namespace + ", so what the controller gets is unknown",
			Remedy: append(f.makeRole(right), fmt.Sprintf("kubectl create rolebinding metrics-reader -n %s --clusterrole=%s %s",
				f.Autoscaler.Namespace, f.role(right.Group), subject))}}
	}
	return nil
}

func subjectOf(user string) string {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return "--serviceaccount=" + Word(account)
	}
	return "--user=" + Word(user)
}

// deniedBy finds rule, policy and namespace in a message that a policy denies a metric, and the selector
// that it wants, if that is the reason.
var deniedBy = regexp.MustCompile(`the external metric "[^"]*" (?:is denied|must be asked for with a selector within "([^"]*)",) by rules\[(\d+)\] of ((?:cluster)?externalmetricpolicy/[^\s,]+)(?: in the namespace ([^\s,:;()]+))?`)

// judgePolicies looks for policies that deny a metric: to the controller by its own message, which is a
// fault; else to the person who asks, of whom a policy may think otherwise.
func (f *Facts) judgePolicies() (out []Finding) {
	if c := f.condition("ScalingActive"); c != nil && c.Status == "False" {
		if m := deniedBy.FindStringSubmatch(c.Message); m != nil {
			return []Finding{ofPolicy("", m, "a policy denies the HPA controller a metric: "+m[0])}
		}
	}
	for i := range f.Autoscaler.Metrics {
		if m := f.deniedByPolicy(i); m != nil {
			finding := ofPolicy(f.Autoscaler.Metrics[i].Name, m,
				"a policy denies you this metric, so what the controller gets is unknown: "+m[0])
			finding.Warning = true
			out = append(out, finding)
		}
	}
	return out
}

// deniedByPolicy is the match of deniedBy in the answer to a metric; nil: no policy denies it.
func (f *Facts) deniedByPolicy(i int) []string {
	if r := f.reading(i); r.Code == http.StatusForbidden {
		return deniedBy.FindStringSubmatch(r.Fault)
	}
	return nil
}

func ofPolicy(of string, m []string, text string) Finding {
	selector, rule, policy, in := m[1], m[2], m[3], ""
	if m[4] != "" {
		in = " -n " + m[4]
	}
	finding := Finding{Cause: RightMissing, Metric: of, Text: text,
		Remedy: []string{fmt.Sprintf("kubectl get%s %s -o jsonpath='{.spec.rules[%s]}'  # the rule that decides",
			in, policy, rule)}}
	if selector != "" {
		finding.Remedy = append(finding.Remedy, fmt.Sprintf("In the autoscaler: a selector within %q", selector))
	}
	return finding
}
