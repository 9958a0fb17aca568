package main

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// What only one of several replicas knows, its agents and what they scrape, the others ask for when they list it.

const (
	// askWithin bounds the wait for answers of other replicas, and askAgain is the time for which they stand: a
	// page of the console asks each second, and explain for each autoscaler.
	askWithin, askAgain = time.Second, time.Second
	// spared is the time for which a replica that did not answer is asked nothing: a round over many namespaces would
	// wait for it in each.
	spared = 5 * time.Second

	agentsQuestion  = "agents"
	targetsQuestion = "targets/" // and a namespace, or none
	pointsQuestion  = "points/"  // and the question in JSON
)

// otherReplicas asks the other replicas.
type otherReplicas struct {
	heard  func() []string // those that live
	speaks func(name string) bool
	ask    func(ctx context.Context, names []string, question []byte) map[string][]byte

	mu     sync.Mutex // guards the fields below
	asked  map[string]*askedElsewhere
	silent map[string]time.Time // when a replica did not answer last
}

// askedElsewhere is a question to other replicas. Those who ask it meanwhile wait for its answers.
type askedElsewhere struct {
	answered chan struct{} // closed once the fields below are set
	at       time.Time
	said     saidElsewhere
}

// over reports whether the answers stand no longer.
func (a *askedElsewhere) over() bool {
	select {
	case <-a.answered:
		return time.Since(a.at) >= askAgain
	default:
		return false
	}
}

// saidElsewhere are the answers of other replicas. complete: all that live have answered.
type saidElsewhere struct {
	answers  [][]byte
	complete bool
}

func (p *dataPath) askOthers() *otherReplicas {
	r := &p.replication
	return &otherReplicas{heard: r.replica.Heard, speaks: r.claims.Speaks, ask: r.replica.Ask}
}

// say asks a question. o may be nil: there are no other replicas.
func (o *otherReplicas) say(question string) saidElsewhere {
	if o == nil {
		return saidElsewhere{complete: true}
	}
	o.mu.Lock()
	maps.DeleteFunc(o.asked, func(_ string, a *askedElsewhere) bool { return a.over() })
	if a := o.asked[question]; a != nil {
		o.mu.Unlock()
		<-a.answered
		return a.said
	}
	a := &askedElsewhere{answered: make(chan struct{})}
	if o.asked == nil {
		o.asked, o.silent = map[string]*askedElsewhere{}, map[string]time.Time{}
	}
	o.asked[question] = a
	live := o.heard()
	names := slices.DeleteFunc(slices.Clone(live), func(name string) bool {
		return !o.speaks(name) || time.Since(o.silent[name]) < spared
	})
	o.mu.Unlock()
	a.said = o.answersOf(names, question)
	a.said.complete = len(a.said.answers) == len(live)
	a.at = time.Now()
	close(a.answered)
	return a.said
}

// answersOf asks some replicas; of none, there are no answers.
func (o *otherReplicas) answersOf(names []string, question string) (said saidElsewhere) {
	if len(names) == 0 {
		return said
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	answers := o.ask(ctx, names, []byte(question))
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		if answer, has := answers[name]; has {
			said.answers = append(said.answers, answer)
			delete(o.silent, name)
		} else {
			o.silent[name] = time.Now()
		}
	}
	return said
}

// answerOther answers another replica, once all parts are made.
func (p *dataPath) answerOther(question []byte) []byte {
	var answer any
	switch text := string(question); {
	case text == agentsQuestion && p.agents != nil:
		answer = agentDocuments(p.agents.Nodes())
	case strings.HasPrefix(text, pointsQuestion) && p.usage != nil:
		answer = p.usage.answerPoints(strings.TrimPrefix(text, pointsQuestion))
	case strings.HasPrefix(text, targetsQuestion) && p.scraper != nil:
		answer = p.scraper.Targets(strings.TrimPrefix(text, targetsQuestion))
	}
	body, _ := json.Marshal(answer) // plain text and numbers
	return body
}

// read reads the documents of all answers.
func read[T any](said saidElsewhere) (all []T, complete bool) {
	complete = said.complete
	for _, answer := range said.answers {
		var documents []T
		if json.Unmarshal(answer, &documents) != nil {
			complete = false
			continue
		}
		all = append(all, documents...)
	}
	return all, complete
}

// mergedAgents are the agents of nodes that any replica has heard.
func mergedAgents(own []inspect.Agent, others *otherReplicas) []inspect.Agent {
	elsewhere, complete := read[inspect.Agent](others.say(agentsQuestion))
	byNode := map[string]inspect.Agent{}
	for _, a := range append(own, elsewhere...) {
		if before, known := byNode[a.Node]; known {
			a = mergedAgent(before, a)
		}
		a.Elsewhere = !complete
		byNode[a.Node] = a
	}
	return slices.AppendSeq([]inspect.Agent{}, maps.Values(byNode))
}

// mergedAgent is the agent of a node that has reported to two replicas: as the one says that hears it, or heard
// it last.
func mergedAgent(a, b inspect.Agent) inspect.Agent {
	newer, older := a, b
	connected := func(of *inspect.Agent) bool { return of.State == inspect.AgentConnected }
	if connected(&b) && !connected(&a) || connected(&b) == connected(&a) && b.Since.After(a.Since) {
		newer, older = b, a
	}
	newer.Samples, newer.Rejected = newer.Samples+older.Samples, newer.Rejected+older.Rejected
	if older.LastFrame.After(newer.LastFrame) {
		newer.LastFrame, newer.Lag = older.LastFrame, older.Lag
	}
	newer.Reason, newer.Message = cmp.Or(newer.Reason, older.Reason), cmp.Or(newer.Message, older.Message)
	return newer
}

// mergedTargets are the targets of a namespace as the replica says that has them scraped.
func mergedTargets(own []inspect.Target, others *otherReplicas, namespace string) []inspect.Target {
	elsewhere, _ := read[inspect.Target](others.say(targetsQuestion + namespace))
	byKey := make(map[inspect.Key]*inspect.Target, len(elsewhere))
	for i := range elsewhere {
		t := &elsewhere[i]
		if before := byKey[t.Key()]; before == nil || says(t, before) {
			byKey[t.Key()] = t
		}
	}
	for i := range own {
		if other := byKey[own[i].Key()]; other != nil && says(other, &own[i]) {
			own[i] = *other
		}
	}
	return own
}

// says reports whether what one replica says of a target counts more than what another one does.
func says(t, than *inspect.Target) bool {
	rank := func(of *inspect.Target) int {
		switch of.State {
		case inspect.TargetElsewhere:
			return 0
		case inspect.TargetWaiting:
			return 1
		}
		return 2
	}
	return rank(t) > rank(than) || rank(t) == rank(than) && t.LastScrape.After(than.LastScrape)
}
