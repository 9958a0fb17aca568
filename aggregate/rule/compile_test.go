package rule

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// selectors are "key=value", for tests.
func selectors(text string) (func(metric.Labels) bool, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return nil, errors.New("must be key=value")
	}
	return func(set metric.Labels) bool { v, is := set.Get(key); return is && v == value }, nil
}

// ratio is a rule, changed by change.
func ratio(change ...func(*Document)) Document {
	d := Document{Namespace: "shop", Name: "busy", Spec: Spec{
		Metric: "busy_ratio", Let: map[string]string{"busy": "busy_workers", "total": "total_workers:last"},
		Value: "total > 0.0 ? busy / total : 0.0",
	}}
	for _, one := range change {
		one(&d)
	}
	return d
}

func value(text string) func(*Document) { return func(d *Document) { d.Spec.Value = text } }

func let(name, metric string) func(*Document) { return func(d *Document) { d.Spec.Let[name] = metric } }

func rename(from, to string) Document {
	return Document{Namespace: "shop", Name: "rename", Spec: Spec{Rename: &Rename{from, to}}}
}

// slow are patterns of at most 128 bytes that would take megabytes, or minutes.
var slow = []string{
	"((a{0,31}){0,31}){0,31}", "(a{1000})", strings.Repeat("(a?", 40), "(" + strings.Repeat("x{900}", 20) + ")",
	"(" + strings.Repeat("(?:a|b|ab){9}", 9) + ")", `(\pL{900})`, `(\pL{140})`, `([` + strings.Repeat(`\pC`, 41) + "])", `(?i)([B-\x{1e942}])`,
}

func TestARuleIsRefusedWithAllItsFaults(t *testing.T) {
	for name, one := range map[string]struct {
		of   Document
		want []string
	}{
		"nothing":          {Document{Name: "x"}, []string{"metric is empty", "let has 0 operands", "value is empty"}},
		"unread":           {Document{Name: "x", Fault: "spec.let: must be a map"}, []string{"spec.let: must be a map"}},
		"typo":             {ratio(value("busy / totl")), []string{`undeclared reference to 'totl'`, `must be one of let: busy, total`, `did you mean`}},
		"whole number":     {ratio(value("busy * 100 / total")), []string{"column 6", "operands are doubles", "2.0, not 2"}},
		"type":             {ratio(value("busy > total")), []string{"value has the type bool; must be double", "a > b ? 1.0 : 0.0"}},
		"int":              {ratio(value("busy > total ? 1 : 0")), []string{"value has the type int; must be double", "2.0"}},
		"unused":           {ratio(value("busy")), []string{"let.total is not used"}},
		"syntax":           {ratio(value("busy / ")), []string{"value, line 1, column"}},
		"text":             {ratio(value(`busy / total + double("1")`)), []string{"found no matching overload"}},
		"matches":          {ratio(value(`"a".matches("(a+)+") ? busy : total`)), []string{"there is no function 'matches'"}},
		"another function": {ratio(value("math.max(busy, total)")), []string{`value, line 1, column 9: there is no function 'max'; must be one of math.greatest,`, `did you mean "math.greatest"?`}},
		"function's name":  {ratio(value("busy / math.ciel(total)")), []string{`did you mean "math.ceil"?`}},
		"bare function":    {ratio(value("ceil(busy / total)")), []string{`did you mean "math.ceil"?`}},
		"library":          {ratio(value("busy / total * math")), []string{"undeclared reference to 'math'; the functions are math.greatest"}},
		"mixed numbers":    {ratio(value("math.greatest(busy, total, 1)")), []string{"has the type dyn; must be double: write numbers with a point"}},
		"loop":             {ratio(value(`[busy, total].all(x, x > 0.0) ? 1.0 : 0.0`)), []string{"undeclared reference"}},
		"nesting":          {ratio(value(strings.Repeat("(", 200) + "busy/total" + strings.Repeat(")", 200))), []string{"value nests parentheses or conditions more than 32 deep; must be at most 32: shorten it"}},
		"length":           {ratio(value("busy/total" + strings.Repeat("+busy", 300))), []string{"value has 1510 bytes; must have at most 1024"}},
		"itself":           {ratio(let("busy", "busy_ratio:last")), []string{"which the rule itself computes"}},
		"other namespace":  {ratio(let("busy", "other/queue?")), []string{"no metric can be pushed with that name"}},
		"path's slash":     {ratio(let("busy", `other\|queue`)), []string{`must have "/" in the place of "\|"`}},
		"operand's name":   {ratio(let("1st", "x")), []string{"let.1st", "letters, digits and _"}},
		"reserved":         {ratio(let("in", "x")), []string{"let.in: CEL reserves the name"}},
		"function":         {ratio(let("math", "x")), []string{"let.math: CEL reserves the name"}},
		"stat in the name": {ratio(func(d *Document) { d.Spec.Metric = "busy:rate" }), []string{`metric is "busy:rate"; must not end in a stat or a window`}},
		"bad name":         {ratio(func(d *Document) { d.Spec.Metric = "a?b" }), []string{`metric is "a?b"; must be a name`}},
		"selector": {ratio(func(d *Document) { d.Spec.Selectors = map[string]string{"busy": "?", "none": "a=b"} }),
			[]string{"selectors.busy: must be key=value", "selectors.none: let has no operand"}},
		"both": {Document{Spec: Spec{Metric: "x", Rename: &Rename{"a", "b"}}}, []string{"rename is set beside metric"}},
		"two faults": {ratio(let("in", "x"), func(d *Document) { d.Spec.Metric = "" }),
			[]string{"let.in", "metric is empty"}},
		"empty pattern":  {rename("", "x"), []string{"rename.from is empty"}},
		"bad pattern":    {rename("(", "x"), []string{"rename.from", "missing closing )"}},
		"long pattern":   {rename(strings.Repeat("a", 129), "x"), []string{"129 bytes; must have at most 128"}},
		"no such group":  {rename("(.*)_total", "$2"), []string{`"$2"; must be $1 to $1`}},
		"group twice":    {rename("(.*)_total", "$1$1"), []string{"rename.to has $1 twice"}},
		"lost group":     {rename("(a|b)_(.*)", "$2"), []string{"rename.to has no $1"}},
		"outside":        {rename("a|b", "x"), []string{"outside of a group"}},
		"inner group":    {rename("((a)b)", "$1"), []string{"group in the group"}},
		"reserved words": {rename("(.*)_x", "$1:rate"), []string{"must not end in a stat"}},
	} {
		_, err := Compile(one.of, selectors)
		if err == nil {
			t.Errorf("%s: is accepted", name)
			continue
		}
		for _, want := range one.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", name, err, want)
			}
		}
	}
}

// A pattern may be built to be slow. It is refused by its size before package regexp compiles it,
// which would take megabytes.
func TestSlowPatternsAreRefusedFast(t *testing.T) {
	var before, after runtime.MemStats
	for _, pattern := range slow {
		runtime.ReadMemStats(&before)
		_, err := Compile(rename(pattern, "x_$1"), selectors)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "rename.from") {
			t.Errorf("%s: %v", pattern, err)
		}
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 256<<10 {
			t.Errorf("%s took %d bytes", pattern, bytes)
		}
	}
}

func TestRename(t *testing.T) {
	for _, one := range []struct{ from, to, pushed, name string }{
		{"(.*)_total", "${1}_per_second", "http_requests_total", "http_requests_per_second"},
		{"^(.*)_total$", "$1", "http_requests_total", "http_requests"},
		{"container_(.*)_seconds_total", "$1", "container_cpu_seconds_total", "cpu"},
		{`app\.(web|api)\.(.*)`, "${2}_of_$1", "app.web.queue.depth", "queue.depth_of_web"},
		{`(\pL+)_total`, "$1", "größe_total", "größe"},
		{"old", "new", "old", "new"},
	} {
		r, err := Compile(rename(one.from, one.to), selectors)
		if err != nil {
			t.Errorf("%s: %v", one.from, err)
			continue
		}
		if name, ok := r.rename.New(one.pushed); !ok || name != one.name {
			t.Errorf("%s makes %q %t of %q, want %q", one.from, name, ok, one.pushed, one.name)
		}
		if pushed, ok := r.rename.Pushed(one.name); !ok || pushed != one.pushed {
			t.Errorf("%s finds %q %t for %q, want %q", one.from, pushed, ok, one.name, one.pushed)
		}
		if pushed, ok := r.rename.Pushed("x " + one.name + " y"); ok && pushed == one.pushed {
			t.Errorf("%s is not anchored", one.from)
		}
	}
}

// A name that no pushed metric is renamed to stands for none, though its pattern matches.
func TestANewNameStandsForOnePushedName(t *testing.T) {
	r, err := Compile(rename("a(b|bc)(c?)", "${2}_$1"), selectors)
	if err != nil {
		t.Fatal(err)
	}
	if pushed, ok := r.rename.Pushed("_bc"); ok {
		t.Errorf("_bc stands for %q, which becomes c_b", pushed)
	}
}

func FuzzRename(f *testing.F) {
	f.Add("(.*)_total", "${1}_per_second", "http_requests_total")
	f.Add(`app\.(web|api)\.(.*)`, "${2}_of_$1", "app.web.queue.depth")
	f.Add("a(b*)c", "$1$1", "abbc")
	f.Add("(?i)ABC(x)", "$1", "abcx")
	for _, one := range slow {
		f.Add(one, "$1", "aaaaaaaa")
	}
	f.Fuzz(func(t *testing.T, from, to, name string) {
		r, err := Compile(rename(from, to), selectors)
		if err != nil || len(name) > metric.MaxNameLength {
			return
		}
		if pushed, ok := r.rename.Pushed(name); ok {
			if again, is := r.rename.New(pushed); !is || again != name {
				t.Errorf("%q → %q: %q stands for %q, which becomes %q", from, to, name, pushed, again)
			}
		}
		renamed, ok := r.rename.New(name)
		if ok && len(r.rename.groups) == 1 && renamed != name {
			// One group is cut in one way only.
			if pushed, is := r.rename.Pushed(renamed); !is || pushed != name {
				t.Errorf("%q → %q: %q becomes %q, which stands for %q %t", from, to, name, renamed, pushed, is)
			}
		}
	})
}

func FuzzExpression(f *testing.F) {
	for _, text := range []string{"a/b", "b > 0.0 ? a / b : 0.0", "math.greatest(a, b, 1.0)", "a % 2.0", "-a", "double(int(a)/int(b))", "a == b", "[a]", "{1:a}", `"x"`,
		"a+", "((((", "math.sqrt(a)/b", "int(a) % 0 == 0 ? 1.0 : b"} {
		f.Add(text, 1.0, 0.0)
	}
	f.Fuzz(func(t *testing.T, text string, a, b float64) {
		d := Document{Name: "x", Spec: Spec{Metric: "m", Let: map[string]string{"a": "x", "b": "y"}, Value: text}}
		r, err := Compile(d, selectors)
		if err != nil {
			return
		}
		if v, err := r.value.evaluate([]float64{a, b}); err == nil && (v != v || v-v != 0) {
			t.Errorf("%q of %g, %g is %g", text, a, b, v)
		}
	})
}

// at is a document of some age that adds up operands.
func at(namespace, name string, days int, made string, operands ...string) Document {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, days)
	d := Document{Namespace: namespace, Name: name, UID: namespace + name, Created: created, Spec: Spec{Metric: made, Let: map[string]string{}}}
	for i, o := range operands {
		id := string(rune('a' + i))
		d.Spec.Let[id] = o
		d.Spec.Value = strings.TrimPrefix(d.Spec.Value+" + "+id, " + ")
	}
	return d
}

// A rule that is refused takes no other one with it.
func TestRefusedRulesRefuseNone(t *testing.T) {
	for _, one := range []struct {
		documents []Document
		want      string // reasons, by age
	}{
		{[]Document{at("shop", "old", 1, "y", "p"), at("shop", "between", 2, "m", "x", "y"), at("shop", "young", 3, "x", "q")},
			"Accepted RuleOfRules Accepted"},
		{[]Document{at("shop", "old", 1, "m", "x"), at("", "wide", 2, "x", "p"), at("shop", "young", 3, "x", "q")},
			"RuleOfRules Accepted Accepted"}, // the young one is no rule's operand
		{[]Document{at("shop", "old", 1, "m", "x"), at("", "base", 2, "z", "x"), at("", "wide", 3, "x", "q")},
			"Accepted Accepted RuleOfRules"},
		// A conflict ends when the older rule is refused, and what the younger one computes is a rule's metric.
		{[]Document{at("shop", "old", 1, "m", "x"), at("shop", "young", 2, "m", "p"), at("shop", "of-young", 3, "n", "m"), at("", "wide", 4, "x", "q")},
			"RuleOfRules Accepted RuleOfRules Accepted"},
		{[]Document{at("shop", "old", 1, "a", "p"), at("shop", "second", 2, "m", "a"), at("shop", "third", 3, "m", "q"), at("shop", "fourth", 4, "m", "r")},
			"Accepted RuleOfRules Accepted Conflict"},
		{[]Document{at("shop", "swap", 1, "a", "b"), at("shop", "swapped", 2, "b", "a")}, "Accepted RuleOfRules"},
	} {
		var got []string
		for _, v := range NewSet(one.documents, selectors, nil).Verdicts() {
			got = append(got, string(v.Reason))
		}
		if text := strings.Join(got, " "); text != one.want {
			t.Errorf("%v: %s, want %s", one.documents, text, one.want)
		}
	}
}

func TestRulesOfASet(t *testing.T) {
	set := NewSet([]Document{
		at("shop", "younger", 2, "twice", "y"),
		at("shop", "older", 1, "twice", "x"),
		at("shop", "first", 1, "loop1", "loop2:rate"),
		at("shop", "second", 1, "loop2", "loop1"),
		at("shop", "of-cluster", 1, "above", "wide"),
		at("", "wide", 5, "wide", "x", "z"),
		at("shop", "operand-of-older", 3, "x", "y"),
		at("mail", "own", 9, "wide", "q"),
		at("mail", "broken", 9, "m"),
	}, selectors, nil)
	got := map[string]string{}
	for _, v := range set.Verdicts() {
		got[v.Document.Name] = string(v.Reason)
		if (v.Rule == nil) != (v.Fault != "") {
			t.Errorf("%s: %+v", v.Document, v)
		}
	}
	for name, want := range map[string]Reason{"older": Accepted, "younger": Conflict, "first": Accepted, "second": OfRules,
		"operand-of-older": OfRules,
		"of-cluster":       OfRules, "wide": Accepted, "own": Accepted, "broken": Invalid} {
		if got[name] != string(want) {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
	if r := set.Rule("shop", "twice"); r == nil || r.Document.Name != "older" {
		t.Errorf("%v", r)
	}
	for namespace, want := range map[string]string{"shop": "wide", "mail": "own", "": "wide"} {
		if r := set.Rule(namespace, "wide"); r == nil || r.Document.Name != want {
			t.Errorf("wide in %q is %v, want %s", namespace, r, want)
		}
	}
	if set.Rule("mail", "twice") != nil || set.Rule("shop", "loop2") != nil {
		t.Error("a rule holds in another namespace, or one that is refused holds")
	}
	var names []string
	set.NamesFor("shop", "x", func(name string) bool { names = append(names, name); return false })
	if strings.Join(names, " ") != "twice wide" {
		t.Errorf("x is read by %v", names)
	}
	if set.NamesFor("mail", "x", func(string) bool { return true }) {
		t.Error("x is read by the rule of the cluster where the namespace has its own one of that name")
	}
	again := NewSet([]Document{at("shop", "older", 1, "twice", "x")}, selectors, set)
	if again.Rule("shop", "twice") != set.Rule("shop", "twice") {
		t.Error("an unchanged rule was compiled again")
	}
}

// A namespace may have any number of rules that are refused. A change of another rule compiles none of them again.
func TestRefusedRulesAreCompiledOnce(t *testing.T) {
	compiled := 0
	counting := func(text string) (func(metric.Labels) bool, error) { compiled++; return selectors(text) }
	document := func(name, metric, value string) Document {
		return Document{Namespace: "shop", Name: name, UID: name, Generation: 1, Spec: Spec{Metric: metric,
			Let: map[string]string{"a": "x"}, Selectors: map[string]string{"a": "b=c"}, Value: value}}
	}
	var all []Document
	for i := range 3 * maxRules {
		all = append(all, document(fmt.Sprint("invalid-", i), "m", "a +"), document(fmt.Sprint("valid-", i), fmt.Sprint("m", i/2), "a * 2.0"))
	}
	set := NewSet(all, counting, nil)
	if compiled > 4*maxRules {
		t.Errorf("%d of %d rules were compiled", compiled, len(all))
	}
	compiled = 0
	set = NewSet(append(all, Document{Namespace: "mail", Name: "new", UID: "new", Spec: all[0].Spec}), counting, set)
	if compiled != 1 {
		t.Errorf("%d rules were compiled for one that is new", compiled)
	}
	if n := len(set.Verdicts()); n != len(all)+1 {
		t.Errorf("%d verdicts", n)
	}
}

// Of the invalid rules of a namespace some are compiled, and none of the other rules after them.
func TestInvalidRulesAreBounded(t *testing.T) {
	compiled := 0
	counting := func(text string) (func(metric.Labels) bool, error) { compiled++; return selectors(text) }
	var all []Document
	for i := range maxInvalid + 100 {
		all = append(all, Document{Namespace: "shop", Name: fmt.Sprint(i), UID: fmt.Sprint(i), Created: time.Unix(int64(i), 0),
			Spec: Spec{Metric: "m", Let: map[string]string{"a": "x"}, Selectors: map[string]string{"a": "b=c"}, Value: "x +"}})
	}
	all[0].Fault = "spec cannot be read" // it isn't compiled
	other := all[0]
	other.Namespace, other.Fault, other.Spec.Value = "mail", "", "a"
	set := NewSet(append(all, other), counting, nil)
	if compiled != maxInvalid+1 {
		t.Errorf("%d rules were compiled, want %d of one namespace and 1", compiled, maxInvalid)
	}
	verdicts := map[string]*Verdict{}
	for i := range set.verdicts {
		verdicts[set.verdicts[i].Document.String()] = &set.verdicts[i]
	}
	if v := verdicts[all[maxInvalid+1].String()]; v.Reason != TooMany || v.Fault != `the namespace "shop" has 1000 older rules that are invalid, which is the limit` {
		t.Errorf("the first one above the limit: %s, %q", v.Reason, v.Fault)
	}
	if v := verdicts[all[maxInvalid].String()]; v.Reason != Invalid || !strings.Contains(v.Fault, "Syntax error") {
		t.Errorf("the last one below the limit: %s, %q", v.Reason, v.Fault)
	}
	if v := verdicts[other.String()]; v.Rule == nil {
		t.Errorf("of another namespace: %s, %q", v.Reason, v.Fault)
	}
}

// In lists, which are cut, the renames of a namespace add a hundred names after those that are pushed and computed, and
// take bounded time. Nothing is computed again while the names and the rules are the same.
func TestRenamesOfANamespaceLeaveRoomInLists(t *testing.T) {
	renaming := func(namespace, from, to string) Document {
		return Document{Namespace: namespace, Name: from, Spec: Spec{Rename: &Rename{From: from, To: to}}}
	}
	ratio := at("mail", "ratio", 0, "share", "name0000")
	set := NewSet([]Document{renaming("shop", "(.*)", "a_$1"), renaming("slow", "((?:a?){90}b*)_last", "s_$1"), renaming("bank", "(.*)_last", "b_$1"),
		renaming("", "name(.*)", "c_$1"), ratio}, selectors, nil)
	if err := set.Faults(); err != nil {
		t.Fatal(err)
	}
	var pushed []metric.Discovered
	for i := range 2000 {
		pushed = append(pushed, metric.Discovered{Name: fmt.Sprintf("name%04d", i) + strings.Repeat("x", 80), Kind: metric.Gauge})
	}
	pushed[0].Name = "name0000"
	pushed = append(pushed, metric.Discovered{Resource: "pods", Name: "bb_last"})
	all := set.Listed(pushed)
	if !slices.Equal(all[:len(pushed)], pushed) {
		t.Error("others come before those that are pushed")
	}
	if first := all[len(pushed)]; first.Name != "share" {
		t.Errorf("first after the pushed ones: %v", first)
	}
	by := map[string]int{}
	for _, one := range all[len(pushed)+1:] {
		by[one.Name[:2]]++
	}
	if got := fmt.Sprint(by); got != "map[a_:100 b_:1 c_:2000]" {
		t.Errorf("names of renames: %s", got)
	}
	before := &set.listed.added[0]
	set.listed.until = time.Time{}
	if again := set.Listed(slices.Clone(pushed)); !slices.Equal(again, all) || &set.listed.added[0] != before {
		t.Error("the same list was computed again, or is another one")
	}
	all[0].Name = "changed"
	set.listed.until = time.Now().Add(time.Hour)
	if again := set.Listed(pushed[:10]); again[0].Name != "name0000" || len(again) != 10+len(all)-len(pushed) || &set.listed.added[0] != before {
		t.Errorf("another list, before its time: %v", again)
	}
	set.listed.until = time.Time{}
	if again := set.Listed(pushed[:10]); again[0].Name != "name0000" || len(again) != 10+1+10+10 {
		t.Errorf("another list: %v", again)
	}
}

// What a rename costs a list is the work of both directions, and the namespaces share what there is for all of them.
func TestRenamesOfAllNamespacesTakeBoundedTime(t *testing.T) {
	var all []Document
	for i := range 16 {
		for j := range 16 {
			all = append(all, Document{Namespace: fmt.Sprint("n", i), Name: fmt.Sprint(j), Spec: Spec{Rename: &Rename{From: "(.?)(.*)(.*)", To: "$2$1" + strings.Repeat("y", 240) + fmt.Sprintf("%02d", j) + "$3"}}})
		}
	}
	set := NewSet(all, selectors, nil)
	if err := set.Faults(); err != nil {
		t.Fatal(err)
	}
	var pushed []metric.Discovered
	for i := range 2000 {
		pushed = append(pushed, metric.Discovered{Name: fmt.Sprintf("name%04d", i), Kind: metric.Gauge})
	}
	r := set.allRenames()[0].rename
	if r.size < 240 {
		t.Errorf("a rename to a name of 240 letters counts as %d instructions", r.size)
	}
	room := roomOf(set.allRenames())
	delete(room, "") // the cluster's, which administrators write
	together := 0
	for _, one := range room {
		together += one.work
	}
	if len(room) != 16 || together > mostRenameWork {
		t.Errorf("%d namespaces have work of %d together", len(room), together)
	}
	if got := len(set.Listed(pushed)); got != len(pushed) {
		t.Errorf("%d names of which none can be found back", got-len(pushed))
	}
}

// A fault of a rule is kept as a line of a kilobyte, whatever the rule says.
func TestFaultsAreShort(t *testing.T) {
	many := at("shop", "many", 0, "m", "x")
	many.Spec.Let = map[string]string{}
	for i := range 1000 {
		many.Spec.Let[fmt.Sprint("no operand ", i)] = "x"
	}
	all := []Document{many, {Fault: strings.Repeat("long\n", 1e5)}}
	for _, from := range []string{`\pL_(.*)`, `(.*)[\pL\PN]`, `((\pL)_.*)`, `(.*)_[\x{10000}-\x{10400}\PL]+`} {
		all = append(all, rename(from, "x_$1"))
	}
	for i := range all {
		all[i].Namespace, all[i].Name = "shop", fmt.Sprint(i)
	}
	for _, v := range NewSet(all, selectors, nil).Verdicts() {
		if v.Reason != Invalid || len(v.Fault) < 20 || len(v.Fault) > maxFault+32 || strings.Contains(v.Fault, "\n") {
			t.Errorf("%.80s: %s, %d bytes: %.300q", v.Document.Spec.flat(), v.Reason, len(v.Fault), v.Fault)
		}
		if r := v.Document.Spec.Rename; r != nil && len(v.Fault) > 400 {
			t.Errorf("%s: %d bytes: %.400q", r.From, len(v.Fault), v.Fault)
		}
	}
}

// An error about very many rules is short: the first faults, the limit and how many rules are beyond it.
func TestFaultsOfManyRules(t *testing.T) {
	rules := func(n int, value string) (all []Document) {
		for i := range n {
			d := at("default", fmt.Sprint("r", i), 0, fmt.Sprint("m", i), "x")
			d.Spec.Value += value
			all = append(all, d)
		}
		return all
	}
	for _, c := range []struct {
		documents []Document
		want      []string
	}{
		{rules(1000, ""), []string{`and 799 more rules: the namespace "default" has 200 older rules, which is the limit`}},
		{rules(201, ""), []string{`: the namespace "default" has 200 older rules, which is the limit`}},
		{rules(1000, " +"), []string{"metricrule/r0 in default: value, line 1", "\nand 990 more"}},
	} {
		err := NewSet(c.documents, selectors, nil).Faults()
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 3000 {
				t.Errorf("%d rules: %v; want %q", len(c.documents), err, want)
			}
		}
	}
	if _, err := Parse("rules.yaml", []byte(strings.Repeat("kind: Rule\n---\n", 1000))); err == nil || !strings.Contains(err.Error(), "\nand 2990 more") {
		t.Errorf("%.300s", err)
	}
}

func TestFile(t *testing.T) {
	documents, err := Parse("rules.yaml", []byte(`
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: busy, namespace: shop}
spec:
  metric: busy_ratio
  let: {busy: busy_workers, total: "total_workers:last"}
  selectors: {busy: "queue=mail"}
  value: "busy / total"
---
---
apiVersion: sluice.dev/v1alpha1
kind: ClusterMetricRule
metadata: {name: per-second}
spec:
  rename: {from: "(.*)_total", to: "${1}_per_second"}
`))
	if err != nil || len(documents) != 2 {
		t.Fatalf("%+v %v", documents, err)
	}
	set := NewSet(documents, selectors, nil)
	if err := set.Faults(); err != nil || set.Rule("shop", "busy_ratio") == nil {
		t.Errorf("%v", err)
	}
	if NewSet(documents, selectors, set).Rule("shop", "busy_ratio") != set.Rule("shop", "busy_ratio") {
		t.Error("an unchanged rule was compiled again")
	}
	_, err = Parse("rules.yaml", []byte(`apiVersion: sluice.dev/v1
kind: Rule
metadata: {}
spec: {metrc: x, let: [a], rename: {form: y}}
---
apiVersion: sluice.dev/v1alpha1
kind: ClusterMetricRule
metadata: {name: a, namespace: shop}
specification: {}
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: a}
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: a}
`))
	for _, want := range []string{"rules.yaml:4: spec.let is a list; must be a mapping", "must be empty for a ClusterMetricRule",
		"9: specification is unknown; must be one of apiVersion, kind, metadata, spec", "rules.yaml:15: metricrule/a in default is already in line 11"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	mixed := []byte("apiVersion: v1\nkind: Service\nspec: {metric: [a]}\n---\napiVersion: sluice.dev/v1alpha1\nkind: MetricRule\nmetadata: {name: a}\n")
	if _, err := Parse("f", mixed); err == nil || err.Error() != "f:1: the document is a Service of v1; must be a MetricRule or ClusterMetricRule of sluice.dev/v1alpha1" {
		t.Errorf("a document of another group: %v", err)
	}
	skipped := ""
	if documents, err := ParseManifest("f", mixed, func(place, kind string) { skipped += place + " " + kind }); err != nil || len(documents) != 1 || skipped != "f:1 Service of v1" {
		t.Errorf("a manifest has %d rules (%v), and skipped %q", len(documents), err, skipped)
	}
	if _, err := ParseManifest("f", []byte("&a {kind: List, items: [*a]}"), func(string, string) {}); err == nil || !strings.Contains(err.Error(), `an item is the alias "*a"`) {
		t.Errorf("a list of itself: %v", err)
	}
	if _, err := Parse("x", []byte("a: [")); err == nil || !strings.HasPrefix(err.Error(), "x: ") {
		t.Errorf("%v", err)
	}
}

// A fault names the field in words of the file, never the terminal's: none of Go's types, no control
// character.
func TestFaultsOfTheForm(t *testing.T) {
	const head = "apiVersion: sluice.dev/v1alpha1\nkind: MetricRule\nmetadata: {name: a}\n"
	for text, want := range map[string]string{
		"- a":                                 "f:1: the document is a list; must be a mapping",
		"hello":                               "f:1: the document is a text; must be a mapping",
		"kind: MetricRule\nmetadata: [a]":     "f:2: metadata is a list; must be a mapping",
		head + "spec: x":                      "f:4: spec is a text; must be a mapping",
		head + "spec: {rename: [a, b]}":       "f:4: spec.rename is a list; must be a mapping",
		head + "spec: {metric: [a]}":          "f:4: spec.metric is a list; must be a text",
		head + "spec: &s {metric: *s}":        "f:4: spec.metric is a mapping; must be a text",
		head + "spec:\n  let:\n    a: {b: c}": "f:6: spec.let.a is a mapping; must be a text",
		head + "\"sp\\e[31mec\": {}":          `f:4: sp\x1b[31mec is unknown; must be one of apiVersion, kind, metadata, spec`,
		strings.Replace(head, "name: a", `name: "a\e"`, 1):                `f:1: metadata.name is "a\x1b"; must be 1 to 253 of a-z, 0-9, - and ., as Kubernetes names objects`,
		strings.Replace(head, "name: a", "name: A B", 1):                  `f:1: metadata.name is "A B"; must be`,
		strings.Replace(head, "name: a", "name: a, namespace: Shop/x", 1): `f:1: metadata.namespace is "Shop/x"; must be 1 to 63 of a-z, 0-9 and -`,
	} {
		_, err := Parse("f", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "rule.") {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
	for _, text := range []string{head, head + "spec:", head + "spec: {let: , metric: 1, value: 2.0}", strings.Replace(head, "name: a", "name: a.b-c, namespace: shop-1", 1)} {
		if _, err := Parse("f", []byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("apiVersion: sluice.dev/v1alpha1\nkind: MetricRule\nmetadata: {name: a}\nspec: {metric: a, let: {b: c}, value: b}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if documents, err := Parse("f", text); err == nil {
			NewSet(documents, selectors, nil)
		}
	})
}

// A rename takes little, whatever its pattern: package regexp keeps, for each part that may be missing, the ranges of all that
// follow it.
func TestRenamesTakeLittle(t *testing.T) {
	const letters = "A?B?C?D?E?F?G?H?I?J?K?L?M?N?O?P?Q?R?S?T?U?V?W?X?Y?Z?"
	for from, ok := range map[string]bool{
		"(.*)_total": true, `(\pL+)_(\pL+)`: true, "(" + letters + ")": true, `([\pL\pN_]*)_total`: true,
		"(" + letters + `\p{Lo}?\p{Mn}?\p{So}?\p{Mc}?)`: false,
	} {
		to := "x$1"
		if strings.Count(from, "(") > 1 {
			to = "$2$1"
		}
		_, faults := compileRename(&Rename{From: from, To: to})
		if refused := len(faults) > 0 && strings.Contains(faults[0].Error(), "KiB of memory; must take at most 256"); refused == ok {
			t.Errorf("%s: %v", from, faults)
		}
	}
}

// Renames beyond the limit of a namespace are not compiled.
func TestRenamesBeyondTheLimit(t *testing.T) {
	var all []Document
	for i := range 2 * maxRenames {
		d := rename("(.*)_total", fmt.Sprint("$1_", i))
		d.Name = fmt.Sprintf("r%02d", i)
		all = append(all, d)
	}
	set := NewSet(all, selectors, nil)
	if len(set.compiled) != maxRenames || len(set.allRenames()) != maxRenames {
		t.Errorf("%d are compiled, of which %d hold, want %d", len(set.compiled), len(set.allRenames()), maxRenames)
	}
	if v := set.verdicts[maxRenames]; v.Reason != TooMany || v.Fault != `the namespace "shop" has 16 older rules that rename, which is the limit` {
		t.Errorf("the first one above the limit: %s, %q", v.Reason, v.Fault)
	}
}
