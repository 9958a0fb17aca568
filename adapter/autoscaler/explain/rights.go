package explain

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// ofController looks for rights that the HPA controller lacks.
func (f *Facts) ofController() []Finding {
	var out []Finding
	denied := f.ControllerDenied
	if len(denied) == 0 {
		denied = f.deniedByStatus()
	}
	for _, right := range denied {
		out = append(out, Finding{Cause: RightMissing, Warning: f.active() == "True",
			Text: fmt.Sprintf("the HPA controller (%s) may not %s %s in %s", inspect.ControllerUser, right.Verb, f.onGroup(right), f.Autoscaler.Namespace),
			Remedy: append(f.makeRole(right),
				"kubectl create clusterrolebinding hpa-reads-"+shortName(right.Group)+" --clusterrole="+f.role(right.Group)+" --serviceaccount="+inspect.ControllerAccount),
		})
	}
	return out
}

// controllerRefused finds the right in the message of an autoscaler's condition.
var controllerRefused = regexp.MustCompile(`User "` + inspect.ControllerUser + `" cannot (\w+) resource "([^"]*)" in API group "([^"]*)"`)

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

// ofOwnRights is a note about metrics that the person who asks may not read.
func (f *Facts) ofOwnRights() []Finding {
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
