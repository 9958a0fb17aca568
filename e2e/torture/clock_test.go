package torture

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// TestClock: setting the machine's clock, in either direction and back, expires no series, neither
// while the server runs nor at a clean restart.
func TestClockStepsEndNothing(t *testing.T) {
	binary := clockBinary(t)
	for _, step := range []time.Duration{-10 * time.Minute, -time.Hour, 2 * time.Hour, 25 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			c := clockMachine{t, filepath.Join(t.TempDir(), "wall"), server.New(t)}
			c.set(0)
			c.Runs(binary, "SLUICE_TEST_WALL="+c.wall)
			c.Start()
			c.push()
			c.wantAll("before")

			c.set(step)
			time.Sleep(1500 * time.Millisecond) // some turns of the roller
			c.wantAll("after the step")
			c.restart()
			c.wantAll("after a restart")
			c.Stop()
			c.set(0)
			c.Start()
			c.wantAll("after a restart with the clock set back meanwhile")
			c.set(step)
			time.Sleep(1500 * time.Millisecond)
			c.push()
			c.restart()
			c.wantAll("after another step, pushes and a restart")
			c.set(0)
			time.Sleep(1500 * time.Millisecond)
			c.restart()
			c.wantAll("after it was set back, and a restart")
		})
	}
}

// An unchanged value has the same timestamp and resourceVersion at every read, in every version
// and encoding of the APIs, also after a restart. The timestamps of a window never decrease. If the machine's
// clock is set, the dates move with it, once and by as much, so the age of a value stays right.
func TestClockDatesStay(t *testing.T) {
	c := clockMachine{t, filepath.Join(t.TempDir(), "wall"), server.New(t)}
	c.set(0)
	c.Runs(clockBinary(t), "SLUICE_TEST_WALL="+c.wall)
	c.Start()
	const external, pod = "/apis/external.metrics.k8s.io/v1beta1/namespaces/e2e/", "/namespaces/e2e/pods/web-1/"
	reads := map[string][]string{
		"clock_object:total":   {"/apis/custom.metrics.k8s.io/v1beta1" + pod, "/apis/custom.metrics.k8s.io/v1beta2" + pod},
		"clock_external:total": {external},
		"clock_ttl":            {external},
	}
	windowed, latest := "/apis/custom.metrics.k8s.io/v1beta2"+pod+"clock_object", int64(0)
	for range 12 {
		c.push()
		before := map[string]string{}
		for range 25 {
			for name, paths := range reads {
				for _, path := range paths {
					date := c.dated(path + name)
					if was := before[name]; was != "" && was != date {
						t.Fatalf("%s is dated %s, then %s", name, was, date)
					}
					before[name] = date
					c.sameInProtobuf(path+name, date)
				}
			}
			version, _ := strconv.ParseInt(strings.Fields(c.dated(windowed))[0], 10, 64)
			if version < latest {
				t.Fatalf("the resourceVersion of a window falls from %d to %d", latest, version)
			}
			latest = version
		}
	}
	const path = external + "clock_external:total"
	began := c.timestamp(path)
	for _, step := range []time.Duration{0, 2 * time.Hour, -10 * time.Minute, 0} {
		c.set(step)
		server.Eventually(t, func() string {
			if date := c.timestamp(path); !date.Equal(began.Add(step)) {
				return fmt.Sprintf("with the clock set by %s, dated %s, want %s", step, date, began.Add(step))
			}
			return ""
		})
		before := c.dated(path)
		c.restart()
		for range 25 {
			if after := c.dated(path); after != before {
				t.Fatalf("dated %s, after a restart %s", before, after)
			}
		}
	}
}

func (c *clockMachine) timestamp(path string) time.Time {
	c.t.Helper()
	at, err := time.Parse(time.RFC3339, strings.Fields(c.dated(path))[1])
	must(c.t, err, "read a date")
	return at
}

// dated is the resourceVersion and the timestamp of an answer with one item.
func (c *clockMachine) dated(path string) string {
	c.t.Helper()
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []struct{ Timestamp string }
	}
	body := c.get(path, "application/json")
	if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != 1 {
		c.t.Fatalf("%s: %s (%v)", path, body, err)
	}
	return list.Metadata.ResourceVersion + " " + list.Items[0].Timestamp
}

// sameInProtobuf requires the resourceVersion, a text, and the seconds of the timestamp in
// protobuf too.
func (c *clockMachine) sameInProtobuf(path, date string) {
	c.t.Helper()
	version, timestamp, _ := strings.Cut(date, " ")
	at, err := time.Parse(time.RFC3339, timestamp)
	must(c.t, err, "read a date")
	body := c.get(path, "application/vnd.kubernetes.protobuf")
	seconds := binary.AppendUvarint([]byte{1 << 3}, uint64(at.Unix()))
	if !bytes.Contains(body, []byte(version)) || !bytes.Contains(body, seconds) {
		c.t.Fatalf("%s: protobuf is not dated %s: %q", path, date, body)
	}
}

func (c *clockMachine) get(path, accept string) []byte {
	c.t.Helper()
	body, err := c.Get(path, accept)
	must(c.t, err, "read %s", path)
	return body
}

// clockBinary builds a server whose wall clock the test sets.
func clockBinary(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err, "find the sources")
	dir := t.TempDir()
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(root, "aggregate", "window", "wall.go"): filepath.Join(root, "e2e", "torture", "testdata", "clock", "wall.go.txt"),
	}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	must(t, err, "write the overlay")
	binary := filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./cmd/sluice")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// clockMachine is a server on a machine whose wall clock the test sets.
type clockMachine struct {
	t    *testing.T
	wall string // the file that says by how many seconds the clock is ahead
	*server.Server
}

func (c *clockMachine) set(ahead time.Duration) {
	c.t.Helper()
	next := c.wall + ".next" // renamed, so that no half of it is read
	err := os.WriteFile(next, fmt.Appendf(nil, "%d\n", int64(ahead/time.Second)), 0o600)
	if err == nil {
		err = os.Rename(next, c.wall)
	}
	must(c.t, err, "set the clock")
}

func (c *clockMachine) restart() {
	c.Stop()
	c.Start()
}

// push creates one series for each kind of lifetime: an object's, an external one, one that
// expires an hour after its push, and a group.
func (c *clockMachine) push() {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.TCP)
	must(c.t, err, "connect")
	_, err = io.WriteString(conn, "clock_object:1|c|#pod:web-1,namespace:e2e\nclock_external:1|c|#sluice_object:external/e2e\n")
	if err == nil {
		err = conn.Close()
	}
	must(c.t, err, "send")
	c.put("/v1/namespaces/e2e/external/clock_ttl?ttl=1h", "1")
	c.put("/metrics/job/clock/namespace/e2e?ttl=1h", "# TYPE clock_group gauge\nclock_group 1\n")
}

func (c *clockMachine) put(path, body string) {
	c.t.Helper()
	if status, answer := server.Ask(c.t, http.MethodPut, "http://"+c.HTTP+path, body); status/100 != 2 {
		c.t.Fatalf("PUT %s: %d %s", path, status, answer)
	}
}

// wantAll requires each series to have its value.
func (c *clockMachine) wantAll(when string) {
	c.t.Helper()
	var missing error
	for deadline := time.Now().Add(server.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if missing = c.missing(); missing == nil {
			return
		}
	}
	c.t.Errorf("%s: %v", when, missing)
}

func (c *clockMachine) missing() error {
	if _, err := c.Pod("web-1", "clock_object:total"); err != nil {
		return err
	}
	for _, external := range []string{"clock_external:total", "clock_ttl", "clock_group"} {
		if items, err := c.External(external); err != nil {
			return err
		} else if len(items) != 1 {
			return fmt.Errorf("%d items of %s", len(items), external)
		}
	}
	return nil
}
