package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// Verdicts take bounded memory, with their hits. Where there is no room, those are forgotten that the
// namespace with most of them asked for.
func TestVerdictsAreBounded(t *testing.T) {
	m := newMemory()
	ask := func(namespace, name string, v verdict) bool {
		q := question{namespace, metric.Expression{Name: name}, false}
		m.keep(q, v, namespace)
		_, known := m.of(q)
		return known
	}
	for i := range 100 {
		ask(fmt.Sprint("tenant", i), "jobs", verdict{hits: make([]hit, 2)})
	}
	for _, hits := range []int{0, MaxRulesTogether} {
		v := verdict{hits: make([]hit, hits)}
		for i := range maxRemembered / (verdictBytes + hitBytes*hits) * 3 {
			if !ask("noisy", fmt.Sprint(strings.Repeat("x", 500), i), v) {
				t.Fatal("a new verdict is not remembered")
			}
			if n := m.held.Held(); n > maxRemembered {
				t.Fatalf("verdicts of %d bytes are remembered", n)
			}
		}
		sum, hits := 0, 0
		for q, one := range m.verdicts {
			sum, hits = sum+one.bytes(q), hits+cap(one.hits)
		}
		if sum != m.held.Held() || hits*hitBytes > maxRemembered {
			t.Errorf("%d bytes and %d hits are held, and %d counted", sum, hits, m.held.Held())
		}
	}
	for i := range 100 {
		q := question{fmt.Sprint("tenant", i), metric.Expression{Name: "jobs"}, false}
		if _, known := m.of(q); !known {
			t.Errorf("the verdict of %s is forgotten", q.namespace)
		}
	}
}

// Of the cluster's verdict, which all namespaces share, the namespace pays that asked first.
func TestInventedNamesForgetNoCommonVerdict(t *testing.T) {
	set := setOf(Compile(Meta{Name: "p"}, Spec{Rules: []Rule{deny("x")}}))
	for _, namespace := range []string{"shop", "noisy"} {
		set.ask(namespace, "jobs", "", metric.Reader{})
		set.ask(namespace, "of "+namespace, "", metric.Reader{})
	}
	m := set.current.Load().memory
	m.forgetLocked("noisy")
	for name, want := range map[string]bool{"jobs": true, "of shop": true, "of noisy": false} {
		if _, known := m.of(question{"", metric.Expression{Name: name}, false}); known != want {
			t.Errorf("%s: known %v", name, known)
		}
	}
}
