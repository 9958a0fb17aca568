package replicas

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// within is the share by which a rate may be off in a fault: less than the autoscaler's tolerance.
const within = 0.09

// A replica is killed under constant load and its clients go to the other. Nothing moves.
func TestKillOne(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	l := startLoad(t, m)
	time.Sleep(settled)
	l.steady(t, "before", observe(t, 3*time.Second, 0, m...))
	m[0].Kill()
	time.AfterFunc(time.Second, func() { l.leave(m[0], m[1]) })
	l.steady(t, "one is dead", observe(t, server.ShortOrLong(30*time.Second, 5*time.Minute), 0, m[1]))
	m[0].Start()
	m.joined(t, 1)
	l.steady(t, "it is back", observe(t, 15*time.Second, perSecond, m...))
	l.end()
	time.Sleep(2 * time.Second)
	// At most a flush of what the killed one received is missing, and what was sent to it after.
	lost := float64(l.sent()) - known(sum(m[0], "shared:total")())
	if lost < 0 || lost > perSecond*2.5 {
		t.Errorf("%v of %v samples are missing", lost, l.sent())
	}
	t.Logf("%v of %v samples are missing: a second was sent to nobody", lost, l.sent())
	if a, b := known(sum(m[0], "shared:total")()), known(sum(m[1], "shared:total")()); a != b {
		t.Errorf("the replicas have %v and %v", a, b)
	}
}

// All replicas are upgraded, one after the other, and their clients move meanwhile.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	l := startLoad(t, m)
	time.Sleep(settled)
	for i := range m {
		other := m[1-i]
		l.leave(m[i], other) // an endpoint is removed before its pod ends
		time.Sleep(200 * time.Millisecond)
		m[i].Stop()
		l.steady(t, fmt.Sprintf("replica %d is down", i), observe(t, 5*time.Second, 0, other))
		m[i].Start()
		m.joined(t, 1)
		l.steady(t, fmt.Sprintf("replica %d is back", i), observe(t, 8*time.Second, 0, m...))
	}
	l.endWithAll(t, m)
}

// A replica is frozen and goes on later. Its clients' datagrams wait in the kernel. The replica answers no query
// until it has heard what the other one received meanwhile.
func TestFreezeOne(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	l := startLoad(t, m)
	time.Sleep(settled)
	signal(t, m[0].PID(), syscall.SIGSTOP)
	waiting := l.clients[0].sent.Load()
	time.AfterFunc(500*time.Millisecond, func() {
		l.leave(m[0], m[1])
		l.delayed(l.clients[0].sent.Load() - waiting)
	})
	l.steady(t, "one is frozen", observe(t, server.ShortOrLong(15*time.Second, 30*time.Second), 0, m[1]))
	signal(t, m[0].PID(), syscall.SIGCONT)
	l.steady(t, "it goes on", observe(t, 8*time.Second, 0, m...))
	l.endWithAll(t, m)
}

// A replica that starts answers no query until it has the state of the other one, which has received all.
func TestStartingReplica(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	send(t, m[1], "old:5|c")
	wantTotals(t, m, map[string]float64{"old:total": 5})
	for range 3 {
		m[0].Stop()
		m[0].Launch()
		refused := 0
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			status, body := firstAnswer(m[0], "/v1/namespaces/e2e/external/old:total", deadline)
			if status == http.StatusServiceUnavailable && strings.Contains(body, "does not have the states of the others yet") {
				refused++
				continue
			}
			if status != http.StatusOK || !strings.Contains(body, `"value":5`) {
				t.Fatalf("a starting replica: %d %s, want 5", status, body)
			}
			break
		}
		t.Logf("%d answers with 503", refused)
	}
}

// firstAnswer asks until the server listens.
func firstAnswer(s *server.Server, path string, deadline time.Time) (status int, body string) {
	for ; time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if resp, err := http.Get("http://" + s.HTTP + path); err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			return resp.StatusCode, string(text)
		}
	}
	return 0, "no answer"
}

// The fabric is cut. Each replica answers with what it knows and says so. The long form outlasts the
// minute after which the windows of the other replica run out: the rates are partial then.
func TestCut(t *testing.T) {
	t.Parallel()
	m, f := newFabric(t, 2)
	m.start(t)
	l := startLoad(t, m)
	time.Sleep(settled)
	f.cut.Store(true)
	cut := time.Now()
	l.wantRates(t, server.ShortOrLong(12*time.Second, 55*time.Second), l.rate(), m)
	wantStill(t, m)
	if server.Long {
		time.Sleep(time.Until(cut.Add(80 * time.Second))) // a minute, then the window of ten seconds
		l.wantRates(t, time.Until(cut.Add(5*time.Minute)), perSecond, m)
		wantStill(t, m)
	}
	f.cut.Store(false)
	if server.Long {
		time.Sleep(settled)
		l.wantRates(t, 10*time.Second, l.rate(), m)
	}
	l.endWithAll(t, m)
}

// wantRates requires a rate at each replica. The items of "jobs" each come from one replica only.
func (l *load) wantRates(t *testing.T, during time.Duration, want float64, m mesh) {
	t.Helper()
	wrong := 0
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		for i, s := range m {
			if got, err := sum(s, "jobs:rate:10s")(); err != nil || !l.near("jobs:rate:10s", got, want) {
				t.Logf("replica %d reads %v (%v)", i, got, err)
				wrong++
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d times in %v the rate was not %v", wrong, during.Round(time.Second), want)
	}
}

// wantStill requires that each of two replicas says, by metric and /readyz, that the other one stands
// still.
func wantStill(t *testing.T, m mesh) {
	t.Helper()
	for i, s := range m {
		other := fmt.Sprint("sluice-", 1-i)
		if got := s.Metrics()[fmt.Sprintf(`sluice_replica_standing_still{origin=%q}`, other)]; got != 1 {
			t.Errorf("replica %d says that the other stands still: %v, want 1", i, got)
		}
		checks, err := s.Checks()
		if says := checks["replicas"]; err != nil || !says.Ready || !strings.Contains(says.Detail, other+" stands still") {
			t.Errorf("replica %d: /readyz does not say that the other stands still: %+v (%v)", i, says, err)
		}
	}
}

// The totals are exact once the fabric is quiet, whatever it did to messages before.
func TestBadFabric(t *testing.T) {
	t.Parallel()
	m, f := newFabric(t, 3)
	m.start(t)
	l := startLoad(t, m)
	f.faults.Store(&faults{drop: 0.2, double: 0.2, delay: 0.4, longest: 3 * time.Second})
	time.Sleep(10 * time.Second)
	f.cut.Store(true)
	time.Sleep(4 * time.Second)
	f.cut.Store(false)
	time.Sleep(6 * time.Second)
	l.end()
	f.faults.Store(&faults{})
	time.Sleep(time.Second)
	want := 0.0
	for _, s := range m {
		want += applied(s) / 2 // of each client "jobs" and "shared"
	}
	if want != float64(l.sent()) {
		t.Errorf("%v were applied of %v: the test's own datagrams were lost", want, l.sent())
	}
	wantTotals(t, m, map[string]float64{"jobs:total": want, "shared:total": want})
}

// A replica comes back without its disk: what it counted before is still in all answers, also its
// own.
func TestDiskLost(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	l := startLoad(t, m)
	time.Sleep(settled)
	l.leave(m[0], m[1])
	time.Sleep(1500 * time.Millisecond)
	m[0].Kill()
	must(t, os.RemoveAll(m[0].DataDir()))
	l.steady(t, "one is dead", observe(t, 3*time.Second, 0, m[1]))
	m[0].Start()
	l.steady(t, "it is back without its data", observe(t, 10*time.Second, 0, m...))
	l.endWithAll(t, m)
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	must(t, syscall.Kill(pid, s))
}

// known is a value that was read; -1 after an error.
func known(v float64, err error) float64 {
	if err != nil {
		return -1
	}
	return v
}
