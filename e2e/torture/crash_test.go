package torture

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// A crash is one way to kill a server.
type crash struct {
	name string
	hit  func(*testing.T, *server.Server) // while the load runs
	// mend follows without load, and ends with a server that is ready again.
	mend func(*testing.T, *server.Server)
	// losesNothing: the server itself lives on and is stopped well.
	losesNothing bool
}

var crashes = []crash{
	{name: "the server", hit: killServer, mend: start},
	{
		name: "its storage process", losesNothing: true,
		hit:  func(t *testing.T, s *server.Server) { kill(t, storageProcessOf(t, s)); pause(time.Second) },
		mend: func(t *testing.T, s *server.Server) { awaitPersisting(t, s); s.Stop(); s.Start() },
	},
	{
		name: "both",
		hit: func(t *testing.T, s *server.Server) {
			database := storageProcessOf(t, s)
			kill(t, s.PID())
			_ = syscall.Kill(database, syscall.SIGKILL) // it may have died of the server's death
			s.Kill()
		},
		mend: start,
	},
	{
		name: "at start", hit: killServer,
		mend: func(t *testing.T, s *server.Server) {
			for range 2 { // a third death in a row before the restore is done makes the database suspect
				s.Launch()
				pause(150 * time.Millisecond)
				s.Kill()
			}
			s.Start()
		},
	},
	{
		name: "in restore", hit: killServer,
		mend: func(t *testing.T, s *server.Server) {
			s.Launch()
			for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				checks, err := s.Checks()
				if err == nil && (checks["start"].Ready || strings.Contains(checks["start"].Detail, "restoring")) {
					break
				}
			}
			pause(100 * time.Millisecond)
			s.Kill()
			s.Start()
		},
	},
	{
		name: "in a clean end",
		hit: func(t *testing.T, s *server.Server) {
			must(t, syscall.Kill(s.PID(), syscall.SIGTERM), "stop the server")
			pause(150 * time.Millisecond)
			s.Kill()
		},
		mend: start,
	},
}

func killServer(_ *testing.T, s *server.Server) { s.Kill() }

func start(_ *testing.T, s *server.Server) { s.Start() }

// TestCrash kills the server again and again under load. After each restart, everything that
// ?sync=true acknowledged is there, StatsD totals include all that the server had reported on
// disk, and nothing counts twice.
func TestCrash(t *testing.T) {
	const others = 20_000 // series that make a restore take a while
	s := server.New(t)
	s.Start()
	fill(t, s, others)
	var books crashBooks
	rounds := server.ShortOrLong(12, 200)
	for round := range rounds {
		crash := crashes[round%len(crashes)]
		// A push with ?sync=true flushes everything, so only StatsD totals alone show how far they
		// lag behind.
		withPushes := round/len(crashes)%2 == 0
		load := startCrashLoad(t, s, books, withPushes)
		pause(time.Second)
		persisted := load.awaitPersisted(t, s)
		pause(500 * time.Millisecond)
		crash.hit(t, s)
		load.stop()
		if crash.losesNothing {
			persisted = books.jobs + load.sent.Load()
		}
		crash.mend(t, s)
		books = books.check(t, fmt.Sprintf("round %d, killed: %s", round, crash.name), s, load, persisted, crash.losesNothing)
		if live := s.Metrics()["sluice_series"]; live != others+3 {
			t.Fatalf("round %d, killed: %s: %v series after the restart, want %d", round, crash.name, live, others+3)
		}
	}
	slices.Sort(books.behind)
	figure(t, "%d kills: %d of %d acknowledged pushes lost, StatsD totals %.2f s behind (median; worst %.2f s), 0 counted twice",
		rounds, 0, books.acknowledged, books.behind[len(books.behind)/2], books.behind[len(books.behind)-1])
	if median := books.behind[len(books.behind)/2]; median > 1 {
		t.Errorf("StatsD totals were %.2f s behind in half of the rounds; must be at most 1 s", median)
	}
}

// crashBooks are the server's values when they were last read, with nothing in flight.
type crashBooks struct {
	jobs, paid, depth int64
	acknowledged      int
	behind            []float64 // seconds, of the rounds that lose and have StatsD alone
}

// check compares the restored values with the samples sent.
func (b crashBooks) check(t *testing.T, when string, s *server.Server, load *crashLoad, persisted int64, lossless bool) crashBooks {
	t.Helper()
	jobs, paid, depth := int64(s.Sum("jobs:total")), int64(s.Sum("paid:total")), int64(s.Sum("depth"))
	for _, value := range []struct {
		name             string
		got, least, most int64
	}{
		{"jobs (StatsD)", jobs, persisted, b.jobs + load.sent.Load()},
		{"paid (?sync=true)", paid, load.paid.acknowledged.Load(), load.paid.tried.Load()},
		{"depth (?sync=true)", depth, load.depth.acknowledged.Load(), load.depth.tried.Load()},
	} {
		if value.got < value.least || value.got > value.most {
			t.Fatalf("%s: %s is %d after the restart, want %d to %d", when, value.name, value.got, value.least, value.most)
		}
	}
	behind := float64(b.jobs+load.sent.Load()-jobs) / jobsPerSecond
	b.jobs, b.paid, b.depth = jobs, paid, depth
	b.acknowledged += load.acknowledged()
	if !load.withPushes && !lossless {
		b.behind = append(b.behind, behind)
	}
	return b
}

// storageProcessOf finds the storage process: the server's child.
func storageProcessOf(t *testing.T, s *server.Server) int {
	t.Helper()
	deadline := time.Now().Add(server.Patience)
	for ; time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if all := s.Children(); len(all) == 1 {
			return all[0]
		}
	}
	t.Fatal("the server has no process that keeps its database")
	return 0
}

func kill(t *testing.T, pid int) {
	t.Helper()
	must(t, syscall.Kill(pid, syscall.SIGKILL), "kill process %d", pid)
}

// pause waits for a random time, so each kill hits another place.
func pause(most time.Duration) { time.Sleep(rand.N(most)) }

// fill sends a number of series and waits until all are there.
func fill(t *testing.T, s *server.Server, series int) {
	t.Helper()
	conn, err := net.Dial("tcp", s.TCP)
	must(t, err, "connect")
	defer conn.Close()
	var lines bytes.Buffer
	for i := range series {
		fmt.Fprintf(&lines, "filled.%d:%d|c\n", i%500, i)
		lines.Truncate(lines.Len() - 1)
		fmt.Fprintf(&lines, "|#n:%d\n", i)
	}
	_, err = conn.Write(lines.Bytes())
	must(t, err, "send")
	server.Within(t, func() string {
		if live := s.Metrics()["sluice_series"]; live != float64(series) {
			return fmt.Sprintf("%v series are live, want %d", live, series)
		}
		return ""
	})
}

// awaitPersisting waits until the server writes to its database.
func awaitPersisting(t *testing.T, s *server.Server) {
	t.Helper()
	server.Within(t, func() string {
		if says := storeSays(s); !strings.HasPrefix(says, "persisting") {
			return "the store does not persist again: " + says
		}
		return ""
	})
}
