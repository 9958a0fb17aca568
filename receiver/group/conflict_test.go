package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// claim is a way of a path, or of its sender, to name an object.
type claim struct {
	namespace string // of the key
	labels    string // "a=b,c=d" of the path, beside job
	object    metric.Object
}

// isServedNamespace reports whether the series have the label namespace.
func (c *claim) isServedNamespace() bool {
	return c.object.External() && strings.Contains(c.labels, "namespace=shop")
}

var shopPod = metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}

// claims are ways to name three objects, and their neighbours.
var claims = []claim{
	{"shop", "", metric.Object{Namespace: "shop"}},
	{"shop", "sluice_object=", metric.Object{Namespace: "shop"}},
	{"shop", "sluice_object=external", metric.Object{Namespace: "shop"}},
	{"bank", "sluice_object=external/shop", metric.Object{Namespace: "shop"}},
	{"shop", "namespace=shop", metric.Object{Namespace: "shop"}}, // the table has this label
	{"shop", "sluice_object=external,namespace=shop", metric.Object{Namespace: "shop"}},
	{"shop", "sluice_object=pods/web-1", shopPod},
	{"shop", "sluice_object=pod/web-1", shopPod},
	{"shop", "sluice_object=pods/web-1,namespace=shop", shopPod},
	{"shop", "sluice_object=pods/web-1,namespace=", shopPod},
	{"shop", "sluice_object=pods/web-2", metric.Object{Resource: "pods", Namespace: "shop", Name: "web-2"}},
	{"shop", "sluice_object=nodes/n1", metric.Object{Resource: "nodes", Name: "n1"}},
	{"bank", "sluice_object=nodes/n1", metric.Object{Resource: "nodes", Name: "n1"}},
	{"bank", "sluice_object=nodes/n1,namespace=bank", metric.Object{Resource: "nodes", Name: "n1"}},
	{"bank", "sluice_object=nodes/n2", metric.Object{Resource: "nodes", Name: "n2"}},
}

// pushAs pushes to the group of a claim with more labels in the path.
func (f *fixture) pushAs(c claim, grouping []string, body string) (Key, *Rejection) {
	f.Helper()
	families, fault := exposition.NewTextReader(exposition.DefaultOptions()).Read([]byte(body))
	if fault.Reason != metric.Applied {
		f.Fatal(fault.Error())
	}
	if c.labels != "" {
		grouping = append([]string{c.labels}, grouping...)
	}
	k := keyOf(strings.Join(append([]string{"job=a"}, grouping...), ","))
	k.Namespace = c.namespace
	f.now = f.now.Add(time.Second)
	_, r := f.Push(&Push{Key: k, Object: c.object, Families: families, Now: f.now, Applier: f.table})
	return k, r
}

// A series belongs to one group however its object is named.
func TestRivalsOfOneObject(t *testing.T) {
	f := newFixture(t)
	for i, first := range claims {
		for j, second := range claims {
			if _, r := f.pushAs(first, nil, "y 1\n"); r != nil {
				t.Fatal(r.Message)
			}
			k, r := f.pushAs(second, nil, "y 2\n")
			rivals := i != j && first.object == second.object && first.isServedNamespace() == second.isServedNamespace()
			if (r != nil) != rivals {
				t.Errorf("%v beside %v: %v, want a conflict: %v", second, first, r, rivals)
			}
			f.Delete(k)
			if got := f.table.String(); i != j && !strings.HasSuffix(got, " gauge 1") {
				t.Errorf("%v beside %v: once it is deleted, the table has %q", second, first, got)
			}
			f.Wipe(nil)
		}
	}
	f.balanced()
}

// Two metrics of a body that differ only in labels which name objects would be one series.
func TestRivalsWithinABody(t *testing.T) {
	f := newFixture(t)
	about := claim{"shop", "sluice_object=pods/web-1", shopPod}
	external := claim{"shop", "", metric.Object{Namespace: "shop"}}
	for _, c := range []struct {
		claim
		body    string
		refused bool
	}{
		{about, "m{namespace=\"a\"} 3\nm{namespace=\"b\"} 4\n", true},
		{about, "m{namespace=\"a\"} 3\nm 4\n", true},
		{about, "m{namespace=\"a\",k=\"1\"} 3\nm{namespace=\"b\",k=\"2\"} 4\n", false},
		{external, "m{namespace=\"a\"} 3\nm{namespace=\"b\"} 4\n", false},
		{external, "m{sluice_object=\"a\"} 3\nm{sluice_object=\"b\"} 4\n", true},
	} {
		if _, r := f.pushAs(c.claim, nil, c.body); (r != nil) != c.refused {
			t.Errorf("%v with %q: %v, want it refused: %v", c.claim, c.body, r, c.refused)
		}
		f.Wipe(nil)
	}
}

// The model goes over all groups, as that of TestRivalsAreFound.
func TestRivalsOfObjectsAreFound(t *testing.T) {
	f := newFixture(t)
	r := rand.New(rand.NewPCG(7, 8))
	all := map[Key]string{} // the series of a group
	refused := 0
	for range 5000 {
		c := claims[r.IntN(len(claims))]
		var grouping, body []string
		labels := []string{"instance=", "job=a"}
		if c.isServedNamespace() {
			labels = append(labels, "namespace=shop")
		}
		for _, l := range []string{"x", "y"} {
			value := fmt.Sprint(r.IntN(2))
			switch r.IntN(3) {
			case 0:
				grouping = append(grouping, l+"="+value)
			case 1:
				body = append(body, l+"=\""+value+"\"")
			default:
				continue
			}
			labels = append(labels, l+"="+value)
		}
		slices.Sort(labels)
		key, rejection := f.pushAs(c, grouping, "m{"+strings.Join(body, ",")+"} 1\n")
		series, rival := c.object.String()+fmt.Sprint(labels), false
		for other, has := range all {
			rival = rival || other != key && has == series
		}
		if (rejection != nil) != rival {
			t.Fatalf("%v %v: %v, want a conflict: %v", c, labels, rejection, rival)
		}
		switch {
		case rejection != nil:
			refused++
		case r.IntN(3) == 0:
			f.Delete(key)
			delete(all, key)
		default:
			all[key] = series
		}
		if n := len(f.table.series); n != len(all) {
			t.Fatalf("the table has %d series, the groups %d", n, len(all))
		}
	}
	if refused < 100 {
		t.Errorf("%d pushes were refused: the test shows too little", refused)
	}
	f.Wipe(nil)
	f.balanced()
	f.serves("")
}
