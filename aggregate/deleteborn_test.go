package aggregate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

func allOf(name string) metric.Query {
	return metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.Expression{Name: name}}
}

// TestDeleteBorn: a deletion that is heard of late deletes what was born before it, to the
// millisecond, and not what was pushed again.
func TestDeleteBorn(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("old:1|c|#pod:a,ns:ns")
		f.push("again:1|c|#pod:a,ns:ns")
		time.Sleep(20 * time.Millisecond)
		at := time.Now()
		f.Delete(allOf("again"))
		time.Sleep(20 * time.Millisecond)
		f.push("again:5|c|#pod:a,ns:ns")
		f.push("old:1|c|#pod:a,ns:ns")
		time.Sleep(10 * time.Second)
		if n := f.DeleteBorn(allOf("again"), at); n != 0 {
			t.Errorf("deleted %d series that are younger", n)
		}
		if n := f.DeleteBorn(allOf("old"), at); n != 1 {
			t.Errorf("deleted %d series, want the older one", n)
		}
		f.want("again:total", "a=5")
	})
}

// TestDeleteBornBeforeARestart: the time while no process ran counts for the date of a deletion.
func TestDeleteBornBeforeARestart(t *testing.T) {
	start(t, func(f *fixture) {
		f.push("old:1|c|#pod:a,ns:ns")
		time.Sleep(5 * time.Second)
		between := time.Now()
		time.Sleep(5 * time.Second)
		f.push("young:1|c|#pod:a,ns:ns")
		time.Sleep(2 * time.Second)
		s := newSaved()
		s.flush(f.Table, func(int) bool { return true })
		time.Sleep(20 * time.Second)
		away := time.Now()
		time.Sleep(20 * time.Second)
		again := s.restore(t)
		time.Sleep(5 * time.Second)
		if young, old := again.DeleteBorn(allOf("young"), between), again.DeleteBorn(allOf("old"), between); young != 0 || old != 1 {
			t.Errorf("deleted %d younger and %d older series, want 0 and 1", young, old)
		}
		if n := again.DeleteBorn(allOf("young"), away); n != 1 {
			t.Errorf("deleted %d series, want one that was born before the process was away", n)
		}
	})
}

// TestMergedDeleteBorn: series of another origin are hidden if they were born before the deletion.
func TestMergedDeleteBorn(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[0].push("m:1|c|#pod:a,ns:ns")
		r.tables[1].push("m:2|c|#pod:b,ns:ns")
		time.Sleep(3 * time.Second)
		at := time.Now()
		time.Sleep(3 * time.Second)
		r.tables[1].push("m:3|c|#pod:c,ns:ns")
		time.Sleep(time.Second)
		if n := r.DeleteBorn(allOf("m"), at); n != 2 {
			t.Errorf("deleted %d series, want 2", n)
		}
		points, err := r.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression("m:total")})
		if err != nil || len(points) != 1 || points[0].Object.Name != "c" {
			t.Errorf("%v %v, want c alone", points, err)
		}
	})
}

// TestHiddenUntilItsOriginKnows: a deleted series of an origin that cannot be reached stays hidden.
// If the origin is heard and still has the series, it was pushed again there.
func TestHiddenUntilItsOriginKnows(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		r.tables[1].push("m:2|c|#pod:b,ns:ns")
		time.Sleep(time.Second)
		r.peers[0].silence(true)
		if n := r.Delete(allOf("m")); n != 1 {
			t.Fatalf("deleted %d series, want 1", n)
		}
		for range 10 {
			time.Sleep(10 * time.Second)
			if got := r.ask("m:total"); !strings.HasPrefix(got, "no series") {
				t.Fatalf("%s, want none", got)
			}
		}
		r.peers[0].silence(false)
		time.Sleep(5 * time.Second)
		r.want("m:total", "b=2")
	})
}

// TestStaleElsewhere: a staleness marker for a series that another origin has is told to it, unless
// the series has a newer value.
func TestStaleElsewhere(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		own := r.tables[0]
		var told []string
		own.OnStaleElsewhere(func(o metric.Object, name string, labels metric.Labels) {
			told = append(told, fmt.Sprintf("%s %s %v", o.Name, name, labels.Map()))
		})
		r.tables[1].push("m:2|g|#pod:b,ns:ns,l:x", fmt.Sprintf("n:2|g|#pod:b,ns:ns|T%d", time.Now().Unix()))
		time.Sleep(time.Second)
		own.push("own:1|g|#pod:b,ns:ns")
		own.apply(&metric.Sample{Name: []byte("m"), Op: metric.MarkStale, Separator: ':', Tags: []byte("pod:b,ns:ns,l:x")})
		own.apply(&metric.Sample{Name: []byte("m"), Op: metric.MarkStale, Separator: ':', Tags: []byte("pod:b,ns:ns,l:y")})
		own.apply(&metric.Sample{Name: []byte("own"), Op: metric.MarkStale, Separator: ':', Tags: []byte("pod:b,ns:ns")})
		own.apply(at(&metric.Sample{Name: []byte("n"), Op: metric.MarkStale, Separator: ':', Tags: []byte("pod:b,ns:ns")}, time.Minute))
		if got, want := fmt.Sprint(told), "[b m map[l:x]]"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}
