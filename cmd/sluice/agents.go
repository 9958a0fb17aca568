package main

import (
	"context"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/builtin"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agents"
)

// agentReceiver is the receiver of samples that agents report, in metrics and lists.
const agentReceiver = "agent"

// openAgents binds the port for agents, if it is on.
func (p *dataPath) openAgents(context.Context) (err error) {
	if !p.cfg.agents.Enabled() {
		return nil
	}
	parts := agents.Parts{
		NewApplier: func() agents.Applier { return p.table.NewWriter() },
		Restored:   p.table.Restored,
		Forget:     p.table.ForgetFeed,
		Durable:    p.store.Durable,
		Sync:       p.store.Sync,
		Account:    p.ledger.Open(agentReceiver),
		Explain:    p.whyRejected,
		Rejected:   p.rejectedOfAgent,
		Epoch:      p.replication.epoch.ID(),
		Awaited:    p.table.FeedsAwaited(),
		Ready:      p.clusterRead,
		Logger:     p.log,
	}
	parts.Canonical = builtin.New().Canonical
	if r := &p.replication; r.replica != nil {
		parts.Name, parts.Published = p.cfg.replica().Name, r.publishedTo
	}
	if view := p.cluster.view; view != nil {
		accounts, err := adapter.NewAccounts(p.cluster.client.REST(), p.cfg.push.TokenAudience, view)
		if err != nil {
			return err
		}
		parts.Senders, parts.NodeOf, parts.IsFormer = view, view.NodeOf, p.resolver.IsFormer
		parts.Claimant, parts.Blind = p.resolver.Claimant, view.Outage
		parts.Canonical = view.Canonical
		parts.HasPod = func(uid string) bool { return view.PodWithUID(uid) != nil }
		parts.Authenticate = adapter.NewAgentAccounts(accounts, p.cfg.agents.Accounts, view).Node
	}
	if p.usage != nil {
		parts.Usage, parts.Seconds, parts.ContainerNamed = p.takeUsage, p.takeSeconds, p.usage.view.ContainerNamed
	}
	if p.scraper != nil {
		parts.Scrapes = func(node string) agents.Scrapes { return p.scraper.Enter(node) }
	}
	if p.cluster.taints != nil {
		parts.Came = p.cluster.taints.AgentCame
	}
	if p.replication.claims != nil {
		parts.Nodes = claimedNodes{p.replication.claims}
	}
	p.agents, err = agents.Listen(p.cfg.agents, parts)
	return p.cfg.portFault("agents-address", &p.cfg.agents, err)
}

// takeUsage takes what an agent reports that its node uses, also for other replicas.
func (p *dataPath) takeUsage(node string, report usage.Report) []agents.Renewal {
	renewals := p.usage.take(node, report)
	if r := p.replication.replica; r != nil {
		r.PublishUsage(agents.EncodeUsage(node, &report, report.At))
	}
	return renewals
}

// takeSeconds takes what the containers of a node's report used in the newest second, also for other replicas.
func (p *dataPath) takeSeconds(node string, number uint64, seconds *usage.Seconds) {
	p.usage.latest.SetSeconds(node, number, seconds)
	if r := p.replication.replica; r != nil {
		r.PublishUsage(agents.EncodeSeconds(node, number, seconds))
	}
}

// clusterRead reports whether senders are known, and what is missing otherwise.
func (p *dataPath) clusterRead() (bool, string) {
	if p.cluster.view == nil {
		return true, ""
	}
	return p.cluster.state()
}

func (p *dataPath) rejectedOfAgent(reason metric.Reason, s *metric.Sample, n uint64, why string) {
	p.rejections.Add(&record.Sample{Receiver: agentReceiver, Sender: s.Sender, Reason: reason, Metric: s.Name,
		Why: func() string { return why }}, n)
}

// agentOf is explain.Facts.AgentOf. Nil: no agents are in use, or it is not known which nodes have one at another replica.
func (p *dataPath) agentOf() func(node string) (inspect.Agent, bool) {
	if p.agents == nil {
		return nil
	}
	all := mergedAgents(agentDocuments(p.agents.Nodes()), p.replication.others)
	if len(all) == 0 || all[0].Elsewhere {
		return nil
	}
	byNode := make(map[string]inspect.Agent, len(all))
	for _, a := range all {
		byNode[a.Node] = a
	}
	return func(name string) (inspect.Agent, bool) {
		a, known := byNode[name]
		return a, known
	}
}

func agentDocuments(nodes []agents.Node) []inspect.Agent {
	all := make([]inspect.Agent, len(nodes))
	for i := range nodes {
		all[i] = agentDocument(&nodes[i])
	}
	return all
}

var agentStates = map[agents.State]string{
	agents.Connected: inspect.AgentConnected, agents.CutOff: inspect.AgentCutOff, agents.Stopped: inspect.AgentStopped,
}

func agentDocument(n *agents.Node) inspect.Agent {
	out := inspect.Agent{Node: n.Name, Version: n.Version, State: agentStates[n.State], Since: n.Since.UTC(), Series: n.Series,
		Samples: n.Samples, Lag: n.Lag.Seconds(), Rejected: n.Rejected, Message: n.Why}
	if !n.LastFrame.IsZero() {
		out.LastFrame = n.LastFrame.UTC()
	}
	if n.Rejected > 0 {
		out.Reason = n.Reason.String()
	}
	return out
}
