package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// told are other replicas, "b" of which is of an earlier version.
func told(t *testing.T, answers map[string]any, live ...string) (o *otherReplicas, asked *[]string) {
	asked = new([]string)
	return &otherReplicas{heard: func() []string { return live }, speaks: func(name string) bool { return name != "b" },
		ask: func(_ context.Context, names []string, question []byte) map[string][]byte {
			*asked = append(*asked, strings.Join(names, " ")+": "+string(question))
			out := map[string][]byte{}
			for _, name := range names {
				if answer, has := answers[name]; has {
					body, err := json.Marshal(answer)
					must(t, err)
					out[name] = body
				}
			}
			return out
		}}, asked
}

// An agent that has reported to two replicas is one, as that one says which hears it; without an answer of each live replica it is unknown
// which nodes have none.
func TestAgentsOfAllReplicas(t *testing.T) {
	at := time.Now().UTC()
	own := []inspect.Agent{{Node: "both", State: inspect.AgentCutOff, Since: at.Add(time.Minute), Samples: 3, Rejected: 1, Reason: "limit", LastFrame: at, Lag: 1},
		{Node: "mine", State: inspect.AgentStopped, Since: at}}
	others := []inspect.Agent{{Node: "both", State: inspect.AgentConnected, Since: at, Samples: 4, LastFrame: at.Add(time.Second), Lag: 2},
		{Node: "theirs", State: inspect.AgentConnected}, {Node: "mine", State: inspect.AgentCutOff, Since: at.Add(time.Second)}}
	for _, c := range []struct {
		name     string
		live     []string
		complete bool
	}{{"all answer", []string{"c"}, true}, {"one is silent", []string{"c", "d"}, false}, {"one is of an earlier version", []string{"b", "c"}, false}} {
		o, _ := told(t, map[string]any{"c": others}, c.live...)
		all := mergedAgents(slices.Clone(own), o)
		slices.SortFunc(all, func(a, b inspect.Agent) int { return strings.Compare(a.Node, b.Node) })
		want := inspect.Agent{Node: "both", State: inspect.AgentConnected, Since: at, Samples: 7, Rejected: 1, Reason: "limit", LastFrame: at.Add(time.Second),
			Lag: 2, Elsewhere: !c.complete}
		if len(all) != 3 || all[0] != want || all[1].State != inspect.AgentCutOff || all[2].Node != "theirs" || all[2].Elsewhere == c.complete {
			t.Errorf("%s: %+v", c.name, all)
		}
	}
	if all := mergedAgents(own, nil); len(all) != 2 || all[0].Elsewhere {
		t.Errorf("%+v without other replicas", all)
	}
}

// A target is as that replica says which has it scraped.
func TestTargetsOfAllReplicas(t *testing.T) {
	at := time.Now().UTC()
	target := func(pod, state string, scraped time.Time) inspect.Target {
		return inspect.Target{Namespace: "shop", Pod: pod, Endpoint: ":1/metrics", State: state, LastScrape: scraped}
	}
	o, asked := told(t, map[string]any{"c": []inspect.Target{
		target("theirs", inspect.TargetUp, at), target("mine", inspect.TargetElsewhere, time.Time{}),
		target("nobodys", inspect.TargetWaiting, time.Time{}), target("both", inspect.TargetFailing, at), target("gone", inspect.TargetUp, at)}}, "c")
	all := mergedTargets([]inspect.Target{target("theirs", inspect.TargetElsewhere, time.Time{}), target("mine", inspect.TargetFailing, at),
		target("nobodys", inspect.TargetElsewhere, time.Time{}), target("both", inspect.TargetUp, at.Add(time.Second))}, o, "shop")
	got := ""
	for _, t := range all {
		got += t.Pod + " " + t.State + ", "
	}
	if got != "theirs up, mine failing, nobodys waiting, both up, " || len(*asked) != 1 || (*asked)[0] != "c: targets/shop" {
		t.Errorf("%s; asked %q", got, *asked)
	}
}

// Answers stand for a second.
func TestAnswersOfReplicasStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, asked := told(t, map[string]any{"c": nil}, "c")
		for range 5 {
			o.say("agents")
			o.say("targets/")
			time.Sleep(300 * time.Millisecond)
		}
		if n := len(*asked); n != 4 {
			t.Errorf("asked %d times in 1.5 s, want 4", n)
		}
	})
}

// A replica that does not answer costs those who ask one wait, however many questions they have, and nobody waits for the
// questions of others.
func TestASilentReplicaIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &otherReplicas{heard: func() []string { return []string{"c"} }, speaks: func(string) bool { return true },
			ask: func(ctx context.Context, _ []string, _ []byte) map[string][]byte { <-ctx.Done(); return nil }}
		began := time.Now()
		var round sync.WaitGroup
		for range 2 {
			round.Go(func() {
				for i := range 20 {
					if o.say(fmt.Sprint("targets/", i)).complete {
						t.Error("complete without an answer")
					}
				}
			})
		}
		round.Wait()
		if took := time.Since(began); took != askWithin {
			t.Errorf("it took %v, want %v", took, askWithin)
		}
		time.Sleep(spared)
		o.say("agents")
		if took := time.Since(began); took != 2*askWithin+spared {
			t.Errorf("%v after the begin, it was not asked again", took)
		}
	})
}
