package main

import (
	"context"
	"errors"
	"net/netip"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/builtin"
	"github.com/sluice-metrics/sluice/adapter/console"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/sluice-metrics/sluice/replica"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// openConsole opens the console, if it is configured.
func (p *dataPath) openConsole(context.Context) (err error) {
	cfg := p.cfg.console
	if !cfg.Enabled() {
		return nil
	}
	http, _ := p.pushURL()
	parts := console.Parts{
		Source: p.inspection(), Answers: p.readable(), Try: p.try, Health: p.health, Past: p.past, Agents: p.agents != nil,
		PushUDP: p.udpAddress(), PushHTTP: http, Get: "sluice get", Kubectl: "kubectl", Logger: p.log,
		KindOf: kindOf(builtin.New().FindResource),
	}
	if p.cfg.standalone {
		parts.Get, parts.Kubectl = p.getCommand(), "kubectl --kubeconfig "+p.kubeconfig
		if push := &p.cfg.push; push.BasicAuthFile == "" && push.TLSClientCAFile == "" {
			parts.Deleter = groupDeleter{path: p}
		}
	}
	if p.cluster.view != nil {
		reader := consoleReader{p}
		parts.Readable = p.cluster.policies.Readable
		parts.KindOf = kindOf(p.cluster.view.FindResource)
		parts.Facts, parts.Begin, parts.Groups = reader.facts, reader.begin, reader.groups
		if parts.Access, err = p.consoleAccess(); err != nil {
			return err
		}
		if !cfg.Loopback() {
			parts.Deleter = groupDeleter{p, p.viewers}
		}
		parts.TLS = p.api.TLS()
	}
	p.console, err = console.New(cfg, parts)
	return p.cfg.listenFault("console-address", err)
}

// kindOf finds the kind of a resource for the console.
func kindOf(
	find func(string) (schema.GroupVersionKind, schema.GroupResource, bool, error),
) func(string) (string, string, bool) {
	return func(resource string) (apiVersion, kind string, namespaced bool) {
		of, _, namespaced, err := find(resource)
		if err != nil {
			return "", "", false
		}
		apiVersion, kind = of.ToAPIVersionAndKind()
		return apiVersion, kind, namespaced
	}
}

// past has the series of a metric with their values of the last minute, as the bare name reads them.
func (p *dataPath) past(namespace, resource, name string) (all []console.Past) {
	if metric.ParseExpression(name).Name != name {
		return nil
	}
	place := aggregate.Place{Resource: resource, Namespace: namespace, Name: name}
	for _, pastSery := range p.merged.PastSeries(place, inspect.DetailSeries) {
		all = append(all, console.Past{Values: pastSery.Past, Series: inspect.Series{
			Object: inspect.Reference{Resource: pastSery.Object.Resource, Namespace: pastSery.Object.Namespace,
				Name: pastSery.Object.Name}, Labels: pastSery.Labels.Map()}})
	}
	return all
}

// consoleAccess asks the API server about tokens and rights, as HTTP push does.
func (p *dataPath) consoleAccess() (console.Access, error) {
	accounts, err := adapter.NewAccounts(p.cluster.client.REST(), p.cfg.push.TokenAudience, p.cluster.view)
	if err != nil {
		return nil, err
	}
	p.viewers, err = credential.NewAuthenticator(credential.Config{Tokens: true}, accounts, p.log)
	return consoleAccess{p.viewers}, err
}

// consoleAccess implements console.Access.
type consoleAccess struct{ asks *credential.Authenticator }

// Who implements console.Access. An answer is at most ten seconds old.
func (c consoleAccess) Who(ctx context.Context, from netip.Prefix, token string) (*metric.Principal, error) {
	who, err := c.asks.Token(ctx, from, token)
	switch {
	case errors.Is(err, credential.ErrUnavailable):
		return nil, errors.Join(console.ErrUnavailable, err)
	case err != nil:
		return nil, err
	}
	return &who.Principal, nil
}

// May implements console.Access.
func (c consoleAccess) May(ctx context.Context, who *metric.Principal, right metric.Right) (bool, error) {
	if known, ok := who.Rights.(*credential.Principal); ok {
		if err := c.asks.CheckRights(ctx, known, right); err != nil {
			return false, errors.Join(console.ErrUnavailable, err)
		}
	}
	return who.Check(right) == metric.Allowed, nil
}

// consoleReader reads what autoscalers get, for the console.
type consoleReader struct{ *dataPath }

// begin returns a reader of the values that targets are compared with.
func (r consoleReader) begin() func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (float64, bool) {
	reader, targets := r.autoscalerReader(), r.cluster.view.Targets()
	return func(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) (float64, bool) {
		got, err := reader.Of(a, m, targets)
		value := got.Sum.Float64()
		if m.Source == inspect.SourcePods {
			value /= float64(max(got.Values, 1))
		}
		return value, err == nil
	}
}

// facts returns what the cluster view has of an autoscaler, and the controller's last questions by metric.
func (r consoleReader) facts(a *inspect.Autoscaler) (*explain.Facts, []console.Use) {
	reader := r.autoscalerReader()
	asked := make([]console.Use, len(a.Metrics))
	for i := range a.Metrics {
		m := &a.Metrics[i]
		asked[i] = console.Use(r.api.ControllerUse(a.Namespace, reader.ResourceOf(m), m.Name))
	}
	facts := reader.Facts(a, r.cluster.view.Targets())
	facts.AgentOf = r.agentOf()
	return facts, asked
}

// groups are the API groups, and when the API server last asked for them.
func (r consoleReader) groups() (all []console.GroupUse) {
	for _, use := range r.api.GroupUses() {
		all = append(all, console.GroupUse{Group: use.Group, Last: console.Use(use.Last), Succeeded: use.Succeeded})
	}
	return all
}

// consoleReplica is another replica, with its state in a few words.
func consoleReplica(o *replica.OriginStatus) console.Replica {
	r := console.Replica{Name: o.Name, State: "sends", Lag: o.Lag, Clock: o.Offset, Series: o.Series, Bytes: o.Bytes,
		Received: int64(o.Received)}
	switch {
	case o.Left:
		r.State = "has ended"
	case o.Former:
		r.State = "former process"
	case o.CutOff:
		r.State, r.Fault = "cut off", true
	case o.StandingStill:
		r.State, r.Fault = "stands still", true
	case !o.Complete:
		r.State = "catches up"
	}
	return r
}

// health is the state of the process, for the console.
func (p *dataPath) health() console.Health {
	h := console.Health{Version: sluice.Version, Series: p.table.Series(),
		MaxSeries: p.cfg.table.MaxSeries, MaxBytes: p.cfg.table.MaxBytes}
	h.HeldSeries, h.HeldBytes = p.table.Held()
	if p.replication.replica != nil {
		h.Replicas = p.replication.replica.Known()
		for _, origin := range p.replication.replica.Origins() {
			h.Others = append(h.Others, consoleReplica(&origin))
		}
	}
	for _, f := range p.ledger.Figures() {
		receiver := console.Receiver{Name: f.Receiver, Received: f.Received, Applied: f.Applied, Pending: f.Pending,
			Datagrams: f.Datagrams, KernelDrops: f.KernelDrops}
		for _, reason := range metric.Reasons() {
			if n := f.Rejected[reason]; n > 0 {
				receiver.Rejected = append(receiver.Rejected, console.Count{Reason: reason.String(), Number: n})
			}
		}
		h.Receivers = append(h.Receivers, receiver)
	}
	for _, c := range p.checks() {
		ready, detail := c.State()
		h.Checks = append(h.Checks, console.Check{Name: c.Name, Ready: ready, Detail: detail})
	}
	return h
}
