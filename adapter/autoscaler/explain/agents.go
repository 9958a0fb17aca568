package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// agentFault is the cause why no agent of a pod's node is heard; empty: one is, or nothing is known.
func (f *Facts) agentFault(p *inspect.TargetPod) Cause {
	if f.AgentOf == nil || p.Node == "" {
		return ""
	}
	switch agent, known := f.AgentOf(p.Node); {
	case known && agent.State == inspect.AgentConnected:
		return ""
	case known && agent.State == inspect.AgentCutOff:
		return AgentCutOff
	}
	return NoAgent
}

// wordsOfAgents are the ends of sentences about a pod.
var wordsOfAgents = map[Cause]string{
	AgentCutOff: "has no value, and the agent of its node is cut off",
	NoAgent:     "has no value, and its node has no agent",
}

// judgeAgents looks for pods without a value on nodes whose agent is not heard. A node that has none is a note: its pods may
// push elsewhere.
func (f *Facts) judgeAgents(i int, metrics []MetricReport) (all []Finding) {
	m, reading := &f.Autoscaler.Metrics[i], f.reading(i)
	if f.AgentOf == nil || m.Source != sourcePods || !reading.Asked || metrics[i].Unreadable {
		return nil
	}
	without := f.withoutValue(i)
	for _, cause := range []Cause{AgentCutOff, NoAgent} {
		pods := slices.DeleteFunc(slices.Clone(without), func(p podWithout) bool { return p.agent != cause })
		if len(pods) == 0 {
			continue
		}
		out := Finding{Cause: cause, Metric: m.Name, Warning: cause == NoAgent, Text: f.wordsOfNodes(cause, pods), Remedy: []string{
			"sluice list agents", "kubectl get pods -A -o wide -l app.kubernetes.io/name=sluice-agent --field-selector spec.nodeName=" +
				Word(pods[0].node)}}
		if len(reading.Values) > 0 && cause == AgentCutOff {
			_, held := f.heldBack(i, pods, metrics)
			out.Warning = !held
		}
		all = append(all, out)
	}
	return all
}

// wordsOfNodes names some nodes, each with a pod.
func (f *Facts) wordsOfNodes(cause Cause, pods []podWithout) string {
	const most = 3
	var words, seen []string
	for _, p := range pods {
		if slices.Contains(seen, p.node) {
			continue
		}
		if seen = append(seen, p.node); len(seen) > most {
			words = append(words, "and others")
			break
		}
		text := "node " + p.node + " has no agent that reports to Sluice, as others have"
		if cause == AgentCutOff {
			agent, _ := f.AgentOf(p.node)
			text = fmt.Sprintf("the agent of node %s was cut off %s ago", p.node, age(f.Now.Sub(agent.Since)))
		}
		words = append(words, text+": "+p.name+" runs there, and has no value")
	}
	return strings.Join(words, "; ")
}
