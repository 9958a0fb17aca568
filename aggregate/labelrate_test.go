package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// labelling decides which label set the next sample of a stream has.
type labelling struct {
	name string
	of   func(random *rand.Rand, age time.Duration, n int) string
}

var labellings = []labelling{
	{"of 30 codes", func(random *rand.Rand, _ time.Duration, _ int) string {
		return fmt.Sprint(int(30 * math.Pow(random.Float64(), 3))) // most are rare
	}},
	{"of a new version", func(_ *rand.Rand, age time.Duration, _ int) string { return fmt.Sprint(age > 75*time.Second) }},
	{"of jobs", func(_ *rand.Rand, _ time.Duration, n int) string { return fmt.Sprint(n / 5) }},
}

// A rate doesn't depend on the label sets that its samples are split into: it is the count of the
// window over the time since the object was first heard of, for each object of a list, for a roll-up
// of pods, and for the sum over the label sets of an external metric.
func TestARateDoesNotDependOnLabelSets(t *testing.T) {
	for _, by := range labellings {
		for _, kind := range []string{"c", "ms"} {
			for origins := range 2 {
				if testing.Short() && (kind == "ms" || origins == 0) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %d origins", by.name, kind, origins+1), func(t *testing.T) {
					replicated(t, origins+1, func(r *replicas) { r.splitStreams(by, kind) })
				})
			}
		}
	}
}

// splitStreams pushes two streams of two pods, the second a half minute later, and compares.
func (r *replicas) splitStreams(by labelling, kind string) {
	random := rand.New(rand.NewPCG(1, 2))
	const later = 30 * time.Second
	begun, next := time.Now(), 5*time.Second
	heard := map[string][]time.Time{} // by pod
	for n := 0; time.Since(begun) < 150*time.Second; n++ {
		pod := "a"
		if time.Since(begun) > later && n%2 == 0 {
			pod = "b"
		}
		labels := by.of(random, time.Since(begun), n)
		to := random.IntN(len(r.tables))
		for _, object := range []string{"pod:" + pod + ",ns:ns", "ns:ns,of:" + pod} {
			r.push(to, fmt.Sprintf("x:1|%s|#%s,code:%s", kind, object, labels))
		}
		heard[pod] = append(heard[pod], time.Now())
		time.Sleep(time.Duration(20+random.IntN(160)) * time.Millisecond)
		if time.Since(begun) > next {
			next += 5 * time.Second
			time.Sleep(700 * time.Millisecond) // others have told
			synctest.Wait()
			r.compareRates(heard)
		}
	}
}

// rateOf is the number of moments in the last minute over the age of the first, which is at least ten
// seconds.
func rateOf(all []time.Time) float64 {
	n := 0.0
	for _, at := range all {
		if time.Since(at) <= time.Minute {
			n++
		}
	}
	return n / min(max(time.Since(all[0]), 10*time.Second), time.Minute).Seconds()
}

func (r *replicas) compareRates(heard map[string][]time.Time) {
	r.t.Helper()
	near := func(what string, points []metric.Point, err error, want float64, youngest time.Duration) {
		r.t.Helper()
		got := 0.0
		for _, p := range points {
			got += p.Value.Float64()
		}
		tolerance := 0.02 + float64(time.Second)/float64(youngest) // an age is known to a tick
		if err != nil || math.Abs(got-want) > tolerance*want {
			r.t.Errorf("%s, %s old: %.2f, %v; want %.2f", what, youngest, got, err, want)
		}
	}
	sum, pods, youngest := 0.0, []string{}, time.Hour
	for pod, all := range heard {
		want, age := rateOf(all), time.Since(all[0])
		sum, pods, youngest = sum+want, append(pods, pod), min(youngest, age)
		points, err := r.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: pod, Expression: metric.ParseExpression("x:rate:1m")})
		near("pod "+pod, points, err, want, age)
		q := metric.Query{Namespace: "ns", Expression: metric.ParseExpression("x:rate:1m"),
			MatchLabels: func(set metric.Labels) bool { of, _ := set.Get("of"); return of == pod }}
		points, err = r.External(q)
		near("external of "+pod, points, err, want, age)
	}
	q, _ := rolledUp("x:rate:1m", pods, "")
	points, err := r.Objects(q)
	near("roll-up", points, err, sum, youngest)
}

// The time in which an origin was silent is no time for the label sets that it received, whatever other
// label sets the object has, and however young it is.
func TestARateOfLabelSetsOverASilence(t *testing.T) {
	replicated(t, 2, func(r *replicas) {
		const dies, moves = 22 * time.Second, 27 * time.Second
		time.AfterFunc(dies, r.peers[0].kill)
		begun := time.Now()
		for n := range 500 { // ten samples a second of each label set
			at := time.Since(begun)
			for _, object := range []string{"pod:a,ns:ns", "ns:ns"} {
				r.push(0, "x:1|c|#client:0,"+object)
				if at < dies {
					r.push(1, "x:1|c|#client:1,"+object)
				} else if at >= moves {
					r.push(0, "x:1|c|#client:1,"+object)
				}
			}
			time.Sleep(100 * time.Millisecond)
			if n < 150 || n%7 != 0 {
				continue
			}
			points, err := r.External(metric.Query{Namespace: "ns", Expression: metric.ParseExpression("x:rate:1m")})
			if err != nil || len(points) != 2 {
				t.Error(points, err)
				return
			}
			for what, got := range map[string]float64{"pod": r.value("x:rate:1m"), "external": points[0].Value.Float64() + points[1].Value.Float64()} {
				if slack := 0.02 + 1/at.Seconds(); math.Abs(got-20) > 20*slack { // the age is known to a tick
					t.Errorf("%s at %s: %.2f, want 20", what, at, got)
				}
			}
		}
	})
}
