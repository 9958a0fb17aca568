package aggregate

import (
	"slices"
	"testing"
	"time"
)

// pushAged pushes a line at each of some ages, in seconds before the return.
func (f *fixture) pushAged(line string, ages ...float64) {
	f.t.Helper()
	slices.SortFunc(ages, func(a, b float64) int { return int(b*10 - a*10) })
	ages = append(ages, 0)
	for i, age := range ages[:len(ages)-1] {
		f.push(line)
		time.Sleep(time.Duration((age - ages[i+1]) * float64(time.Second)))
	}
}

// Bursts at irregular intervals read as what came in the window: a pause that resembles the one before is
// no push interval.
func TestIrregularBurstsAreNotScaled(t *testing.T) {
	for _, c := range []struct {
		ages []float64
		want string
	}{
		{[]float64{0.7, 22, 38, 54.6, 55.2, 71, 76.5, 82}, "a=150"},
		{[]float64{14, 30, 46, 62, 73.5, 88}, "a=90"},
	} {
		for _, kind := range []string{"30|c", "2|ms|@0.033333333333333333"} {
			t.Run(kind+" "+c.want, func(t *testing.T) {
				start(t, func(f *fixture) {
					f.push("old:1|c|#pod:a,ns:ns", "x:"+kind+"|#pod:a,ns:ns")
					time.Sleep(5 * time.Minute)
					f.pushAged("x:"+kind+"|#pod:a,ns:ns", c.ages...)
					f.want("x:count:1m", c.want)
				})
			})
		}
	}
}

// Whole samples are counted whole, also where the window measures from push to push.
func TestWholeSamplesStayWhole(t *testing.T) {
	for _, kind := range []string{"c", "ms"} {
		t.Run(kind, func(t *testing.T) {
			start(t, func(f *fixture) {
				f.push("x:1|" + kind + "|#pod:a,ns:ns")
				for range 40 {
					for range 7 {
						time.Sleep(1125 * time.Millisecond)
						for _, w := range []string{"10s", "1m"} {
							if v := f.value("x:count:" + w); v != float64(int64(v)) {
								f.t.Fatalf("%s: count:%s reads %v", kind, w, v)
							}
						}
					}
					f.push("x:1|" + kind + "|#pod:a,ns:ns")
				}
			})
		})
	}
}
