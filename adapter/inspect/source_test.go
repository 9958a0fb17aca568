package inspect

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPagesCoverAListOnce(t *testing.T) {
	var all []Sender
	for i := range 53 {
		all = append(all, Sender{Namespace: fmt.Sprintf("ns%d", i%3), Name: fmt.Sprintf("p%02d", i), Sort: "pod"})
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	list := func(q Query) Page[Sender] {
		return Paged(q, all, func(s *Sender) (string, string, Key) { return s.Namespace, s.Name, s.Key() })
	}
	for _, q := range []Query{{Most: 1}, {Most: 7}, {Most: 53}, {}, {Namespace: "ns1", Most: 5}, {Name: "p07", Most: 5}} {
		want := 0
		for i := range all {
			if q.Takes(all[i].Namespace, all[i].Name, &Key{"x"}) {
				want++
			}
		}
		var got []Sender
		All(q, list, func(s *Sender) bool { got = append(got, *s); return true })
		sorted := slices.IsSortedFunc(got, func(a, b Sender) int { x, y := a.Key(), b.Key(); return x.Compare(&y) })
		same := func(a, b Sender) bool { return a.Key() == b.Key() }
		if len(slices.CompactFunc(slices.Clone(got), same)) != want || len(got) != want || !sorted {
			t.Errorf("%+v: %d items, want %d, each once and in order (sorted: %v)", q, len(got), want, sorted)
		}
	}
}

func TestAPageHasAtMostMaxMost(t *testing.T) {
	for limit, want := range map[int]int{-1: DefaultMost, 0: DefaultMost, 7: 7, MaxMost + 1: MaxMost} {
		if got := (Query{Most: limit}).Limit(); got != want {
			t.Errorf("%d: %d, want %d", limit, got, want)
		}
	}
}

func TestTokensReadBack(t *testing.T) {
	for _, k := range []Key{{}, {"", "a"}, {"shop", "x\xff\x00y", "pods", "é"}} {
		got, err := ParseToken("metrics", k.Token("metrics"))
		if err != nil || got != k {
			t.Errorf("%q: %q (%v)", k, got, err)
		}
	}
}

func TestForgedTokensAreErrors(t *testing.T) {
	good := Key{"shop", "a"}.Token("metrics")
	for _, text := range []string{"x", "====", good + "A", good[:len(good)-2], Key{"shop", "a"}.Token("objects"), "B21ldHJpY3MAAAAA",
		"____________", string(make([]byte, maxToken+1))} {
		if k, err := ParseToken("metrics", text); !errors.Is(err, ErrToken) {
			t.Errorf("%.40q: %q, %v", text, k, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(Key{"shop", "a"}.Token("metrics"))
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := ParseToken("metrics", text); err == nil && k != (Key{}) {
			if again, err := ParseToken("metrics", k.Token("metrics")); err != nil || again != k {
				t.Errorf("%q reads %q, then %q (%v)", text, k, again, err)
			}
		}
	})
}

// Every document has a cell for each column, and documents are found by name.
func TestDocumentsFillTheirColumns(t *testing.T) {
	all := map[string]Document{"metrics": &Metric{}, "objects": &Object{}, "senders": &Sender{}, "rejections": &Rejection{},
		"groups": &PushedGroup{}, "limituses": &Limit{}, "autoscalers": &Autoscaler{Metrics: []AutoscalerMetric{{}}}, "rules": &Rule{},
		"policies": &Policy{}, "agents": &Agent{}, "targets": &Target{}}
	for _, resource := range Resources {
		document := all[resource.Name]
		if document == nil {
			t.Errorf("%s: no document", resource.Name)
			continue
		}
		if got := len(document.Cells(time.Now())); got != len(resource.Columns) {
			t.Errorf("%s has %d cells and %d columns", resource.Name, got, len(resource.Columns))
		}
		if resource.Identity < 1 || resource.Identity > len(resource.Columns) {
			t.Errorf("%s: %d columns identify a document", resource.Name, resource.Identity)
		}
		for _, name := range []string{resource.Name, resource.Singular} {
			if found, ok := ResourceNamed(name); !ok || found.Name != resource.Name {
				t.Errorf("%q finds %q", name, found.Name)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	hour := time.Unix(3600, 0)
	for _, c := range []struct {
		of   Document
		want string
	}{
		{&Autoscaler{Metrics: []AutoscalerMetric{{Name: "a"}, {Name: "b", Missing: true, Why: "never pushed"}}}, "metric b is missing: never pushed"},
		{&Autoscaler{Metrics: []AutoscalerMetric{{Name: "a"}}}, ""},
		{&PushedGroup{Job: "j", LastPush: hour}, ""},
		{&PushedGroup{Job: "j", LastPush: hour, LastFailure: hour.Add(1)}, "the last push to job j was rejected"},
		{&Policy{State: PolicyAccepted}, ""},
		{&Agent{State: AgentConnected}, ""},
		{&Agent{State: AgentStopped}, ""},
		{&Agent{State: AgentCutOff}, "the agent is cut off: it was connected, and did not say that it ends"},
		{&Policy{State: PolicyFaulty, Faults: []string{"rules[0].metric is empty", "rules[1] has a selector and deny"}}, "rules[0].metric is empty; rules[1] has a selector and deny"},
	} {
		if got := c.of.Fault(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.of, got, c.want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 47 * time.Hour: "47h", 48 * time.Hour: "2d"} {
		if got := Age(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
