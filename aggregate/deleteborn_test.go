package aggregate

import (
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
