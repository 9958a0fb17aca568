package replicas

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// Samples that each of three replicas received are in the answers of all, for every kind.
func TestEveryReplicaAnswersWithTheWhole(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 3)
	for i, s := range m {
		send(t, s, fmt.Sprintf("hits:%d|c|#path:/api\nusers:u%d|s\nusers:both|s\nlatency:%d|ms\ndepth:+%d|g", i+1, i, 100*(i+1), i+1))
	}
	want := map[string]float64{
		"hits:total": 6, "users": 4, "latency:count": 3, "latency:min": 100, "latency:max": 300, "latency:mean": 200, "depth": 6,
	}
	wantTotals(t, m, want)
	for i, s := range m { // the second way to read
		status, body := server.Ask(t, http.MethodGet, "http://"+s.HTTP+"/v1/external/hits:total", "")
		if !strings.Contains(body, "6") {
			t.Errorf("replica %d: %d %s, want 6", i, status, body)
		}
	}
}

// The newest value of a gauge counts, whichever replica got it.
func TestTheNewestGaugeCounts(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	for i := range 20 {
		send(t, m[i%2], fmt.Sprintf("level:%d|g", i))
		time.Sleep(60 * time.Millisecond)
	}
	wantTotals(t, m, map[string]float64{"level": 19})
	send(t, m[0], "level:+5|g")
	wantTotals(t, m, map[string]float64{"level": 24})
	time.Sleep(time.Second) // a replica knows the absolute value that a shift follows
	send(t, m[0], "level:-2|g")
	send(t, m[1], "level:+1|g")
	wantTotals(t, m, map[string]float64{"level": 23})
}

// A deletion at one replica holds at all.
func TestADeletionHoldsEverywhere(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	send(t, m[0], "old:1|c")
	send(t, m[1], "old:2|c\nkept:1|c")
	wantTotals(t, m, map[string]float64{"old:total": 3, "kept:total": 1})
	if status, body := server.Ask(t, http.MethodDelete, "http://"+m[1].HTTP+"/v1/external/old", ""); status != http.StatusOK {
		t.Fatalf("DELETE: %d %s", status, body)
	}
	server.Within(t, func() string {
		for i, s := range m {
			if items, err := s.External("old:total"); err == nil {
				return fmt.Sprintf("replica %d still has %v", i, items)
			}
		}
		return ""
	})
	send(t, m[0], "old:7|c")
	wantTotals(t, m, map[string]float64{"old:total": 7, "kept:total": 1})
}

// A Pushgateway group that moves between replicas is the newest push's, not the union's.
func TestAGroupIsTheNewestPush(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	const group = "/metrics/job/import/namespace/e2e"
	push := func(s *server.Server, method, body string, want int) {
		t.Helper()
		if status, text := server.Ask(t, method, "http://"+s.HTTP+group, body); status != want {
			t.Fatalf("%s: %d %s", method, status, text)
		}
	}
	push(m[0], http.MethodPut, "rows 10\ngone 1\n", http.StatusOK)
	wantTotals(t, m, map[string]float64{"rows": 10, "gone": 1})
	push(m[1], http.MethodPut, "rows 20\n", http.StatusOK)
	wantTotals(t, m, map[string]float64{"rows": 20})
	server.Within(t, func() string {
		for i, s := range m {
			if items, err := s.External("gone"); err == nil {
				return fmt.Sprintf("replica %d still has %v", i, items)
			}
		}
		return ""
	})
	push(m[0], http.MethodDelete, "", http.StatusAccepted)
	server.Within(t, func() string {
		for i, s := range m {
			if items, err := s.External("rows"); err == nil {
				return fmt.Sprintf("replica %d still has %v", i, items)
			}
		}
		return ""
	})
}

// A push with sync=all is at every replica when it is answered.
func TestASyncedPushIsEverywhere(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 3)
	for i := range 10 {
		status, body := server.Ask(t, http.MethodPut, "http://"+m[i%3].HTTP+"/v1/namespaces/e2e/external/synced?sync=all",
			fmt.Sprint(i))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		for j, s := range m {
			if got, err := sum(s, "synced")(); err != nil || got != float64(i) {
				t.Errorf("replica %d reads %v (%v) right after %d was pushed to replica %d", j, got, err, i, i%3)
			}
		}
	}
}

// A deletion with sync=all holds at every replica when it is answered, wherever the series were. Series
// that left a group are gone from /metrics then. From other answers they go when their replica has published the removal.
func TestASyncedDeletionIsEverywhere(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 3)
	for i := range 4 {
		for _, s := range m {
			pushSynced(t, http.MethodPost, s, "/v1/namespaces/e2e/external/old", "2")
		}
		wantTotals(t, m, map[string]float64{"old:total": 6})
		pushSynced(t, http.MethodDelete, m[i%3], "/v1/namespaces/e2e/external/old", "")
		for j, s := range m {
			if items, err := s.External("old:total"); err == nil {
				t.Errorf("replica %d reads %v right after replica %d deleted it", j, items, i%3)
			}
		}
		const group = "/metrics/job/import/namespace/e2e"
		pushSynced(t, http.MethodPut, m[i%3], group, "rows 10\ngone 1\n")
		pushSynced(t, http.MethodPut, m[(i+1)%3], group, "rows 20\n")
		began, late := time.Now(), false
		for j, s := range m {
			if got, err := sum(s, "rows")(); err != nil || got != 20 {
				t.Errorf("replica %d reads rows %v (%v), want 20", j, got, err)
			}
			if _, page := server.Ask(t, http.MethodGet, "http://"+s.HTTP+"/metrics", ""); strings.Contains(page, "gone{") {
				t.Errorf("replica %d still lists what left the group:\n%s", j, page)
			}
			_, err := s.External("gone")
			late = late || err == nil
		}
		server.Within(t, func() string {
			for j, s := range m {
				if items, err := s.External("gone"); err == nil {
					return fmt.Sprintf("replica %d still has %v", j, items)
				}
			}
			return ""
		})
		t.Logf("series that left a group: read after the answer %v, gone after %v", late, time.Since(began).Round(time.Millisecond))
	}
}

// pushSynced sends a request with sync=all.
func pushSynced(t *testing.T, method string, s *server.Server, path, body string) {
	t.Helper()
	if status, text := server.Ask(t, method, "http://"+s.HTTP+path+"?sync=all", body); status/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
}

// A running total that its client pushes to another replica goes on from the last push.
func TestARunningTotalMoves(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	const group = "/metrics/job/counter/namespace/e2e"
	for i, total := range []int{100, 130, 130, 190, 250} {
		status, body := server.Ask(t, http.MethodPut, "http://"+m[i%2].HTTP+group,
			fmt.Sprintf("# TYPE rows_total counter\nrows_total %d\n", total))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		wantTotals(t, m, map[string]float64{"rows_total:total": float64(total), "rows_total:count": float64(total - 100)})
	}
}

// send sends StatsD lines to a replica.
func send(t *testing.T, s *server.Server, lines string) {
	t.Helper()
	conn, err := net.Dial("udp", s.UDP)
	must(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, lines); err != nil {
		t.Fatal(err)
	}
}
