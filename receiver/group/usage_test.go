package group

import (
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// One namespace takes its share and no more, without effect on others. An expired group returns
// its share.
func TestNamespaceShare(t *testing.T) {
	f := newFixture(t)
	f.config = Config{MaxGroups: 20, MaxBytes: 40_000, NamespaceShare: 0.1}
	f.push("PUT", "job=a,namespace=shop", "x 1\n")
	f.push("PUT", "job=b,namespace=shop", "x 1\n")
	f.refused("PUT", "job=c,namespace=shop", "x 1\n", metric.OverLimit, "group limit (2) of namespace shop")
	f.push("PUT", "job=b,namespace=shop", "x 2\n") // it has its place
	f.push("PUT", "job=c,namespace=mail", "x 1\n")
	for _, job := range []string{"job=d", "job=e", "job=f"} { // who may speak for all has no share
		f.push("PUT", job, "x 1\n")
	}

	big := "y{l=\"" + strings.Repeat("z", 4000) + "\"} 1\n"
	f.refused("POST", "job=a,namespace=shop", big, metric.OverLimit, "memory limit of the groups of namespace shop (4000 bytes)")
	f.RecordFailure(keyOf("job=g,namespace=shop"), metric.Object{Namespace: "shop"}, 0, f.now)
	if f.Count() != 6 {
		t.Errorf("%d groups, want 6: a failed push makes none where there is no room", f.Count())
	}

	f.Delete(keyOf("job=a,namespace=shop"))
	f.push("PUT", "job=c,namespace=shop", "x 1\n")
	f.refused("PUT", "job=a,namespace=shop", "x 1\n", metric.OverLimit, "group limit (2)")
	f.Wipe(nil)
	if len(f.usage.byNamespace) != 0 || f.Bytes() != 0 {
		t.Errorf("without groups, %d namespaces take something, %d bytes", len(f.usage.byNamespace), f.Bytes())
	}
	f.balanced()
}

// The namespace that pays is that of what a group is about: naming another one's in a label does
// not take its room.
func TestHolder(t *testing.T) {
	for _, c := range []struct {
		about metric.Object
		want  string
	}{
		{metric.Object{}, ""},
		{metric.Object{Namespace: "shop"}, "shop"},
		{metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}, "shop"},
		{metric.Object{Resource: "namespaces", Name: "shop"}, "shop"},
		{metric.Object{Resource: "nodes", Name: "shop"}, ""},
	} {
		if got := payingNamespace(c.about); got != c.want {
			t.Errorf("%v: %q, want %q", c.about, got, c.want)
		}
	}
}

// Restored groups take room as pushed ones do, and are kept even where less may be now.
func TestRestoredGroupsCount(t *testing.T) {
	f, again := newFixture(t), newFixture(t)
	again.config = Config{MaxGroups: 20, MaxBytes: 1 << 20, NamespaceShare: 0.05}
	for _, key := range []string{"job=a,namespace=shop", "job=b,namespace=shop"} {
		f.push("PUT", key, "x 1\n")
		text, _ := f.AppendDocument(nil, keyOf(key).Hash())
		must(t, again.RestoreDocument(keyOf(key).Hash(), text))
	}
	again.refused("PUT", "job=c,namespace=shop", "x 1\n", metric.OverLimit, "group limit (1) of namespace shop")
	if u := again.usage.byNamespace["shop"]; u.groups != 2 || u.bytes.Load() != again.Bytes() {
		t.Errorf("%d groups and %d bytes, want 2 and %d", u.groups, u.bytes.Load(), again.Bytes())
	}
}
