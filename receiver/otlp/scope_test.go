package otlp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// scoped is a resource with these metrics of each scope, in JSON: name and metrics in turn.
func scoped(all ...string) string {
	var b []string
	for i := 0; i < len(all); i += 2 {
		b = append(b, fmt.Sprintf(`{"scope":{"name":%q},"metrics":[%s]}`, all[i], all[i+1]))
	}
	return `{"resource":{},"scopeMetrics":[` + strings.Join(b, ",") + `]}`
}

func requestOf(resources ...string) string {
	return `{"resourceMetrics":[` + strings.Join(resources, ",") + `]}`
}

// Running totals of several scopes of a resource are series of their own; everything else is as without scopes.
func TestScopes(t *testing.T) {
	sum := func(temporality int, monotonic bool, point string) string {
		return fmt.Sprintf(`{"name":"n","sum":{"aggregationTemporality":%d,"isMonotonic":%v,"dataPoints":[{"asInt":"7"%s}]}}`, temporality, monotonic, point)
	}
	total := sum(2, true, "")
	named := func(name string) string { return strings.Replace(total, `"n"`, fmt.Sprintf("%q", name), 1) }
	own := sum(2, true, `,"attributes":[`+attribute("otel.scope.name", "own")+`]`)
	buckets := `{"name":"n","histogram":{"aggregationTemporality":2,"dataPoints":[{"count":"6"}]}}`
	gauge := `{"name":"n","gauge":{"dataPoints":[{"asInt":"7"}]}}`
	const plain, timer = "n counter accumulate 7", "n timer accumulate [] in [] of 6 sum NaN min NaN max NaN quantiles []"
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"one scope":                      {requestOf(scoped("a", total)), []string{plain}},
		"two scopes":                     {requestOf(scoped("a", total, "b", total)), []string{plain, plain + " otel.scope.name=b"}},
		"two scopes, in another order":   {requestOf(scoped("b", total, "a", total)), []string{plain + " otel.scope.name=b", plain}},
		"three scopes":                   {requestOf(scoped("c", total, "b", total, "a", total)), []string{plain + " otel.scope.name=c", plain + " otel.scope.name=b", plain}},
		"histograms":                     {requestOf(scoped("a", buckets, "b", buckets)), []string{timer, timer + " otel.scope.name=b"}},
		"other names":                    {requestOf(scoped("a", total, "b", named("m"))), []string{plain, "m counter accumulate 7"}},
		"one name of two":                {requestOf(scoped("a", named("m"), "b", named("m")+","+total)), []string{"m counter accumulate 7", "m counter accumulate 7 otel.scope.name=b", plain}},
		"other resources":                {requestOf(scoped("a", total), scoped("b", total)), []string{plain, plain}},
		"a resource after another":       {requestOf(scoped("a", total, "b", total), scoped("b", total, "c", named("m"))), []string{plain, plain + " otel.scope.name=b", plain, "m counter accumulate 7"}},
		"a scope without a name":         {requestOf(scoped("a", total, "", total)), []string{plain + " otel.scope.name=a", plain}},
		"two scopes of one name":         {requestOf(scoped("a", total, "a", total)), []string{plain, plain}},
		"deltas add up":                  {requestOf(scoped("a", sum(1, true, ""), "b", sum(1, true, ""))), []string{"n counter add 7", "n counter add 7"}},
		"a gauge has its newest value":   {requestOf(scoped("a", gauge, "b", gauge)), []string{"n gauge assign 7", "n gauge assign 7"}},
		"up and down, cumulative":        {requestOf(scoped("a", sum(2, false, ""), "b", sum(2, false, ""))), []string{"n gauge assign 7", "n gauge assign 7"}},
		"a total beside a delta":         {requestOf(scoped("a", sum(1, true, ""), "b", total)), []string{"n counter add 7", plain}},
		"the point's attribute is first": {requestOf(scoped("a", total, "b", own)), []string{plain, plain + " otel.scope.name=own"}},
	} {
		if got := read(t, c.body, false); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}
