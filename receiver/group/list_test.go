package group

import (
	"fmt"
	"strings"
	"testing"
)

func TestGroupsAreListedInPages(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=b", "x 1\ny{l=\"1\"} 2\ny{l=\"2\"} 2\n")
	f.push("PUT", "job=a,instance=2", "x 1\n")
	f.push("PUT", "job=a,instance=1", "x 1\n")
	want := "a 1 1\na 1 1\nb 2 3\n"
	for limit := 1; limit < 5; limit++ {
		var got strings.Builder
		for p, pages := (Part{Most: limit}), 0; ; pages++ {
			page, more := f.Listed(p)
			if len(page) > limit || pages > 5 {
				t.Fatalf("page %d has %d groups", pages, len(page))
			}
			for _, g := range page {
				families, series := g.Size()
				fmt.Fprintln(&got, g.Key.job(), families, series)
				p.After = g.Key
			}
			if !more {
				break
			}
		}
		if got.String() != want {
			t.Errorf("pages of %d:\n%s, want\n%s", limit, got.String(), want)
		}
	}
	if page, _ := f.Listed(Part{Job: "b", Most: 9}); len(page) != 1 {
		t.Errorf("of one job: %d groups", len(page))
	}
	if page, _ := f.Listed(Part{Namespace: "nowhere", Most: 9}); len(page) != 0 {
		t.Errorf("of a namespace without groups: %d", len(page))
	}
}
