package explain

import (
	"fmt"
	"net/http"
	"regexp"
)

// deniedBy finds rule, policy and namespace in a message that a policy denies a metric, and the selector
// that it wants, if that is the reason.
var deniedBy = regexp.MustCompile(`the external metric "[^"]*" (?:is denied|must be asked for with a selector within "([^"]*)",) by rules\[(\d+)\] of ((?:cluster)?externalmetricpolicy/[^\s,]+)(?: in the namespace ([^\s,:;()]+))?`)

// ofPolicies looks for policies that deny a metric: to the controller by its own message, which is a
// fault; else to the person who asks, of whom a policy may think otherwise.
func (f *Facts) ofPolicies() (out []Finding) {
	if c := f.condition("ScalingActive"); c != nil && c.Status == "False" {
		if m := deniedBy.FindStringSubmatch(c.Message); m != nil {
			return []Finding{ofPolicy("", m, "a policy denies the HPA controller a metric: "+m[0])}
		}
	}
	for i := range f.Autoscaler.Metrics {
		if m := f.deniedByPolicy(i); m != nil {
			one := ofPolicy(f.Autoscaler.Metrics[i].Name, m, "a policy denies you this metric, so what the controller gets is unknown: "+m[0])
			one.Warning = true
			out = append(out, one)
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
	one := Finding{Cause: RightMissing, Metric: of, Text: text,
		Remedy: []string{fmt.Sprintf("kubectl get%s %s -o jsonpath='{.spec.rules[%s]}'  # the rule that decides", in, policy, rule)}}
	if selector != "" {
		one.Remedy = append(one.Remedy, fmt.Sprintf("In the autoscaler: a selector within %q", selector))
	}
	return one
}
