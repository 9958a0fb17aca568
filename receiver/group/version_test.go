package group

import (
	"testing"

	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// The version of a family is its own, wherever it stands among others, and that of a family which is not there is zero.
func TestFamilyVersion(t *testing.T) {
	c := &contents{versions: &versions{}}
	for i, name := range []string{"b", "d", "f"} {
		c.families = append(c.families, &family{Family: exposition.Family{Name: name}})
		c.versions.families = append(c.versions.families, version{stamp: int64(i) + 1})
	}
	for name, want := range map[string]int64{"a": 0, "b": 1, "c": 0, "d": 2, "e": 0, "f": 3, "g": 0, "": 0} {
		if got := c.familyVersion(name); got.stamp != want {
			t.Errorf("%q: %v, want %d", name, got, want)
		}
	}
	alone := &contents{families: c.families}
	for name, of := range map[string]*contents{"no group": nil, "no other replica": alone} {
		if got := of.familyVersion("b"); got != (version{}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
