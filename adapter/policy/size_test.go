package policy

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func heap() int64 {
	runtime.GC()
	runtime.GC() // frees what package regexp pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// twoLetters are different values that take 5 bytes of JSON each.
func twoLetters(n int) (all []string) {
	for i := range n {
		all = append(all, string([]byte{byte('a' + i/26%26), byte('a' + i%26)}))
	}
	return all
}

// rulesOf is a spec of as many rules as there may be, of different expressions.
func rulesOf(n int, pattern string) (spec Spec) {
	for i := range n {
		spec.Rules = append(spec.Rules, deny(fmt.Sprint(pattern, i)))
	}
	return spec
}

// The size by which policies have their room is not less than what they take, of whatever a policy may have most.
func TestPoliciesTakeNoMoreThanTheirSize(t *testing.T) {
	values := Selector{}
	for i := range 32 {
		values.MatchExpressions = append(values.MatchExpressions, Requirement{fmt.Sprint("label", i), NotIn, twoLetters(225)})
	}
	labels := Selector{}
	for i := range 32 {
		labels.MatchExpressions = append(labels.MatchExpressions, Requirement{Key: fmt.Sprint("label", i), Operator: Exists})
	}
	subjects := rulesOf(1, "a")
	for i := range maxSubjects {
		subjects.Subjects = append(subjects.Subjects, Subject{"ServiceAccount", fmt.Sprint("robot-", i), "shop"})
	}
	for name, spec := range map[string]Spec{
		"one rule":       rulesOf(1, "queue_.*"),
		"subjects":       subjects,
		"values":         {Rules: []Rule{{Metric: "a", Selector: &values}}},
		"labels":         {Rules: slices.Repeat([]Rule{{Metric: "a", Selector: &labels}}, maxRules)},
		"literals":       rulesOf(maxRules, strings.Repeat("a", 120)),
		"words":          rulesOf(maxRules, "(requests|errors|latency|depth)_(sum|count|total)"),
		"any case":       rulesOf(maxRules, "[acegikmoqsuwyACEGIKMOQSUWY]{3}"),
		"folded":         rulesOf(maxRules, strings.Repeat("(?i:k)x{3}", 12)),
		"a class":        rulesOf(4, `\pL+`),
		"many classes":   rulesOf(2, strings.Repeat(`\pL`, 4)),
		"of classes":     rulesOf(maxRules, "["+strings.Repeat(`\pL`, 4)+"]"),
		"of few letters": rulesOf(maxRules, `[^\PL\p{Ll}\p{Lo}\p{Lu}]`),
		"a folded range": rulesOf(maxRules, `[B-\x{6fff}]`),
		"repetitions":    rulesOf(8, "a{450}"),
		"a long class":   rulesOf(1, `\pL{50}`),
		"groups":         rulesOf(1, strings.Repeat("(", 50)+`\pL`+strings.Repeat(")", 50)),
		"alternatives":   rulesOf(8, strings.Repeat("a?b?", 25)),
		"faults":         rulesOf(maxRules, "a{1000}b{1000}c{1000}"),
		"more than all":  rulesOf(maxRules, `(\pL{450})`),
	} {
		t.Run(name, func(t *testing.T) {
			const copies = 8
			var all [copies]*Policy
			text, _ := json.Marshal(spec) //nolint:errchkjson // strings
			before := heap()
			for i := range all {
				var own Spec
				if err := json.Unmarshal(text, &own); err != nil {
					t.Fatal(err)
				}
				all[i] = Compile(Meta{Namespace: "shop", Name: name}, own)
			}
			took, size := (heap()-before)/copies, all[0].Size()
			t.Logf("%d bytes, counted as %d", took, size)
			if took > size || size > maxPolicy+maxPolicy/8 {
				t.Errorf("a policy takes %d bytes, and counts as %d", took, size)
			}
			runtime.KeepAlive(all)
		})
	}
}

// A short policy whose expressions would take a gigabyte denies what they name, and says so.
func TestExpressionsOfAPolicyAreBounded(t *testing.T) {
	p := Compile(Meta{Namespace: "shop", Name: "p"}, rulesOf(maxRules, `(\pL{450})`))
	if len(p.Faults) != maxRules || !strings.Contains(p.Faults[0], "takes more than 8 MiB of memory; must have shorter or fewer expressions") {
		t.Errorf("%d faults: %.300q", len(p.Faults), p.Faults)
	}
	p = Compile(Meta{Namespace: "shop", Name: "p"}, rulesOf(maxRules, strings.Repeat("ab|", 40)))
	if len(p.Faults) > 0 {
		t.Errorf("as many long expressions as there may be: %q", p.Faults[0])
	}
}

// An expression that takes long to compile is refused before it is.
func TestSlowExpressionsAreNotCompiled(t *testing.T) {
	for _, one := range []string{"(?:" + strings.Repeat("a", 110) + "){1000}", "((((a{0,9}){0,9}){0,9}){0,1})" + strings.Repeat("x{900}", 9),
		"a[" + strings.Repeat(`\pC`, 41) + "]", `[B-\x{1e942}]` + strings.Repeat("[B-\U0001e942]", 9)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := Compile(Meta{Namespace: "shop", Name: "p"}, Spec{Rules: []Rule{deny(one)}})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 128<<10 || len(p.Faults) != 1 {
			t.Errorf("%s: %d bytes, %.200q", one, n, p.Faults)
		}
	}
}

// A policy for which there is no room denies everything, and tells what it lacks.
func TestAPolicyWithoutRoom(t *testing.T) {
	p := Compile(Meta{Namespace: "shop", Name: "p"}, rulesOf(maxRules, "a"))
	closed := p.WithoutRoom()
	if closed.Size() != 0 || closed.lacks != (lacks{bytes: p.Size()}) || p.lacks != (lacks{}) || len(closed.Faults) != 1 {
		t.Errorf("%d bytes, lacks %+v of %d: %q", closed.Size(), closed.lacks, p.Size(), closed.Faults)
	}
	if got := setOf(closed).ask("shop", "other", "", metric.Reader{}); got != "p 0" {
		t.Error(got)
	}
}
