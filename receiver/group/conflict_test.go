package group

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

func TestRivals(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a,x=1", "m{y=\"2\"} 1\nm 5\n")
	f.push("PUT", "job=a,y=2", "m{x=\"2\"} 1\nn{x=\"1\"} 1\n") // other labels, another name
	f.refused("POST", "job=a,y=2", "m{x=\"1\"} 2\n", metric.Malformed, `"m" with the labels {instance=,job=a,x=1,y=2} is already a series of the group {job=a,x=1}`)
	f.refused("PUT", "job=a", "m{x=\"1\",y=\"2\"} 2\n", metric.Malformed, "group {job=a,x=1}")
	f.refused("PUT", "job=a,instance=,x=1", "m 2\n", metric.Malformed, "group {job=a,x=1}") // what every series has stands in the path
	f.push("PUT", "job=a,x=1", "m{y=\"2\"} 3\nm 6\n")                                       // whose it is may go on
	f.serves("m{instance=,job=a,x=1,y=2} gauge 3\nm{instance=,job=a,x=1} gauge 6\nm{instance=,job=a,x=2,y=2} gauge 1\nn{instance=,job=a,x=1,y=2} gauge 1")
	if g := f.group("job=a,y=2"); !g.Failed.Equal(f.now.Add(-3 * time.Second)) {
		t.Errorf("the refused push is not told: %v", g.Failed)
	}

	f.push("PUT", "job=a,x=1,namespace=shop", "m 1\n") // about something else
	f.push("PUT", "job=b,x=1", "m{y=\"2\"} 1\n")
	f.Delete(keyOf("job=a,x=1"))
	f.push("POST", "job=a,y=2", "m{x=\"1\"} 2\n")
	f.Wipe(nil)
	f.balanced()
}

// The model goes over all groups. A push is refused exactly if another group has one of its series;
// and the table always holds what the groups say.
func TestRivalsAreFound(t *testing.T) {
	f := newFixture(t)
	r := rand.New(rand.NewPCG(5, 6))
	all := map[string]map[string]bool{} // series by group
	refused := 0
	for range 5000 {
		var grouping, body []string
		for _, l := range []string{"instance", "x", "y"} {
			pair := []any{l, r.IntN(2)}
			switch r.IntN(3) {
			case 0:
				grouping = append(grouping, fmt.Sprintf("%s=%d", pair...))
			case 1:
				body = append(body, fmt.Sprintf("%s=\"%d\"", pair...))
			}
		}
		key, line := strings.Join(append([]string{"job=a"}, grouping...), ","), "m{"+strings.Join(body, ",")+"} 1\n"
		if r.IntN(4) == 0 {
			f.Delete(keyOf(key))
			delete(all, key)
			continue
		}
		labels := map[string]string{"instance": ""}
		for _, piece := range append(strings.Split(key, ","), body...) {
			k, v, _ := strings.Cut(piece, "=")
			labels[k] = strings.Trim(v, `"`)
		}
		series := fmt.Sprint(labels)
		rival := ""
		for other, has := range all {
			if other != key && has[series] {
				rival = other
			}
		}
		_, refusal := f.try("POST", key, line)
		if (refusal != nil) != (rival != "") {
			t.Fatalf("%s %s: %v, and the series is of %q", key, line, refusal, rival)
		}
		if refusal != nil {
			refused++
			if want := "{" + strings.Join(keyNames(rival), ",") + "}"; !strings.Contains(refusal.Message, "group "+want) {
				t.Fatalf("%s: want %s", refusal.Message, want)
			}
			if all[key] == nil {
				all[key] = map[string]bool{}
			}
			continue
		}
		all[key] = map[string]bool{series: true} // POST replaces the family
	}
	if refused < 100 {
		t.Errorf("%d pushes were refused: the test shows too little", refused)
	}
	f.balanced()
	f.Wipe(nil)
	f.serves("")
}

// keyNames are the labels of a key, sorted.
func keyNames(text string) (all []string) {
	for k, v := range keyOf(text).Labels.All() {
		all = append(all, k+"="+v)
	}
	return all
}

// Names that are made up by intent cost a push nothing, and the memory of groups only.
func TestRivalsOfTooManyShapes(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a,x=1", "m 1\n")
	f.refused("PUT", "job=a", "m{x=\"1\"} 2\n", metric.Malformed, "{job=a,x=1}")
	for i := range maxLabelNameSets {
		f.push("PUT", fmt.Sprintf("job=b,l%d=1", i), "m 1\n")
	}
	if all := f.usage.labelNames(f.usage.byNamespace[""]); all != nil {
		t.Errorf("%d shapes are looked at", len(all))
	}
	f.push("PUT", "job=a", "n 1\n")
	for i := range maxLabelNameSets {
		f.Delete(keyOf(fmt.Sprintf("job=b,l%d=1", i)))
	}
	f.refused("PUT", "job=a", "m{x=\"1\"} 2\n", metric.Malformed, "{job=a,x=1}")
	f.balanced()
}
