package labelselector

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

func labelled(pairs ...string) metric.Labels {
	var list []metric.Label
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, metric.Label{Key: pairs[i], Value: pairs[i+1]})
	}
	return metric.NewLabels(list)
}

func TestSelector(t *testing.T) {
	long := strings.Repeat("x", 80)
	set := labelled("path", "/api/v1", "code", "500", "env", "prod", "flag", "", "long", long, "slashes", "///",
		"app.kubernetes.io/name", "web", "odd key", "v", "cold", "-5", "name", "größe", "clash!", "odd", "clash", "plain")
	for selector, want := range map[string]bool{
		"":                              true,
		"env=prod":                      true,
		"env==prod":                     true,
		"env=test":                      false,
		"env!=test":                     true,
		"env!=prod":                     false,
		"nope!=x":                       true, // absent is not equal, as everywhere in Kubernetes
		"env in (test,prod)":            true,
		"env notin (test,prod)":         false,
		"env":                           true,
		"nope":                          false,
		"!nope":                         true,
		"!env":                          false,
		"env=prod,code=500":             true,
		"env=prod,code=200":             false,
		"code>499":                      true,
		"code<500":                      false,
		"flag=":                         true,
		"flag":                          true,
		"path=api_v1":                   true,
		"path=_api_v1":                  false, // illegal: a value begins with a letter or digit
		"path!=api_v1":                  false,
		"path in (api_v1)":              true,
		"path=api":                      false,
		"long=" + long[:63]:             true,
		"long=" + long[:62]:             false,
		"slashes=":                      true,
		"app.kubernetes.io/name=web":    true,
		"odd_key=v":                     true,
		"odd_key":                       true,
		"cold<0":                        true, // compared unchanged
		"cold>0":                        false,
		"cold=5":                        true,
		"name=gr____e":                  true,
		"clash=plain":                   true, // the key with that name takes precedence
		"clash=odd":                     false,
		"path=api_v1,long=" + long[:63]: true,
	} {
		parsed, err := labels.Parse(selector)
		if err != nil {
			if selector == "path=_api_v1" {
				continue
			}
			t.Errorf("%q: %v", selector, err)
			continue
		}
		match := Matching(parsed)
		if selector == "" {
			if match != nil {
				t.Error("the empty selector does not take all")
			}
			continue
		}
		if got := match(set); got != want {
			t.Errorf("%q: %v, want %v", selector, got, want)
		}
	}
	if Matching(labels.Nothing())(set) {
		t.Error("labels.Nothing matches")
	}
	if Matching(nil) != nil {
		t.Error("no selector does not take all")
	}
}

// A sanitized value is legal, a legal value is unchanged, and sanitizing twice changes nothing
// more.
func FuzzSanitize(f *testing.F) {
	for _, seed := range []string{"", "a", "/api", "größe", "-", strings.Repeat("ab/", 40), "a-", "-a", "..", strings.Repeat(".", 63) + "a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got := metric.SelectorValue(value)
		if faults := validation.IsValidLabelValue(got); len(faults) > 0 {
			t.Fatalf("%q became %q: %v", value, got, faults)
		}
		if len(validation.IsValidLabelValue(value)) == 0 && got != value {
			t.Fatalf("%q is legal and became %q", value, got)
		}
		if again := metric.SelectorValue(got); again != got {
			t.Fatalf("%q, then %q", got, again)
		}
	})
}

// A selector of a megabyte, as an autoscaler may hold, is compared with no series.
func TestLargeSelectors(t *testing.T) {
	list := func(n int, each string) string { return strings.Repeat(each+",", n-1) + each }
	for _, refused := range []string{list(maxRequirements+1, "!a"), "a in (" + list(maxBytes/2, "b") + ")"} {
		if _, err := Parse("selector", refused); !errors.Is(err, metric.ErrInvalidQuery) || len(err.Error()) > 500 {
			t.Errorf("%.50s…: %v", refused, err)
		}
	}
	for _, taken := range []string{list(maxRequirements, "!a"), "a in (" + list(1000, "b") + ")"} {
		if _, err := Parse("selector", taken); err != nil {
			t.Error(err)
		}
	}
}
