package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// The clock of one of two replicas is an hour off. Rates are right at both, samples have the dates
// of the machine that answers, and the newest gauge counts.
func TestClockOfOneReplica(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			right, wrong := clockReplicas(t, off)
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				countEvenly(t, wrong.Server, stop)
			}()
			time.Sleep(15 * time.Second) // the window is full
			for _, c := range []*clockMachine{right, wrong} {
				server.Eventually(t, func() string {
					if rate := c.Sum("clock_jobs:rate:10s"); !(rate > 95 && rate < 105) {
						return fmt.Sprintf("the rate is %v, want 100", rate)
					}
					return ""
				})
			}
			close(stop)
			<-done

			if date := right.dateOf("clock_jobs:total"); time.Since(date).Abs() > time.Minute {
				t.Errorf("a sample of the other replica is dated %v, now it is %v", date, time.Now())
			}
			for i := range 6 {
				to := []*clockMachine{right, wrong}[i%2]
				to.put("/v1/namespaces/e2e/external/clock_level", fmt.Sprint(i))
				time.Sleep(700 * time.Millisecond)
				for _, c := range []*clockMachine{right, wrong} {
					server.Eventually(t, func() string {
						if got := c.Sum("clock_level"); got != float64(i) {
							return fmt.Sprintf("the level is %v, want %d, which came last", got, i)
						}
						return ""
					})
				}
			}
			right.Stop()
			if said := right.Said(); !strings.Contains(said, "clocks of two replicas differ") {
				t.Errorf("the log does not say that the clocks differ:\n%s", said)
			}
		})
	}
}

// clockReplicas starts two replicas, the second with a clock that is off.
func clockReplicas(t *testing.T, off time.Duration) (right, wrong *clockMachine) {
	t.Helper()
	binary, flags := clockBinary(t), server.ReplicaFlags(t, 2)
	var both [2]*clockMachine
	for i, ahead := range []time.Duration{0, off} {
		c := &clockMachine{t, filepath.Join(t.TempDir(), "wall"), server.New(t, flags[i]...)}
		c.set(ahead)
		c.Runs(binary, "SLUICE_TEST_WALL="+c.wall)
		c.Start()
		both[i] = c
	}
	for _, c := range both {
		server.Eventually(t, func() string {
			if n := c.Metrics()["sluice_replica_origins"]; n != 1 {
				return fmt.Sprintf("%v other replicas, want 1", n)
			}
			return ""
		})
	}
	return both[0], both[1]
}

// countEvenly sends a hundred increments per second until stop is closed.
func countEvenly(t *testing.T, to *server.Server, stop <-chan struct{}) {
	conn, err := net.Dial("udp", to.UDP)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for begun, sent := time.Now(), 0; ; {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			for ; sent < int(now.Sub(begun).Seconds()*100); sent++ {
				_, _ = io.WriteString(conn, "clock_jobs:1|c")
			}
		}
	}
}

// dateOf returns the timestamp of an external metric.
func (c *clockMachine) dateOf(metric string) time.Time {
	c.t.Helper()
	var list struct {
		Items []struct{ Timestamp time.Time }
	}
	body := c.get("/apis/external.metrics.k8s.io/v1beta1/namespaces/e2e/"+metric, "application/json")
	if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != 1 {
		c.t.Fatalf("%s: %s (%v)", metric, body, err)
	}
	return list.Items[0].Timestamp
}
