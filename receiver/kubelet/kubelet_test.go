package kubelet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

var now = time.UnixMilli(1_790_000_000_000)

func TestParse(t *testing.T) {
	const page = `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="app",namespace="shop",pod="web-0"} 4.710169 1790000000123
container_memory_working_set_bytes{container="app",namespace="shop",pod="web-0"} 1.2533760e+07 1790000000125
container_start_time_seconds{container="app",namespace="shop",pod="web-0"} 1.7899e+09
container_swap_usage_bytes{container="app",namespace="shop",pod="web-0"} 0 1790000000125
node_cpu_usage_seconds_total 357.35491 1790000001000
node_memory_working_set_bytes 1.616273408e+09
resource_scrape_error 0
`
	p, err := Parse(strings.NewReader(page), now)
	if err != nil || p.Faults != 0 {
		t.Fatalf("Parse: %v, %d faults: %s", err, p.Faults, p.FirstFault)
	}
	want := metric.UsageReading{Started: time.Unix(1_789_900_000, 0), CPU: 4_710_169_000, CPUAt: time.UnixMilli(1790000000123), Memory: 12_533_760, MemoryAt: time.UnixMilli(1790000000125)}
	if got := p.Readings[metric.Container{Namespace: "shop", Pod: "web-0", Name: "app"}]; got != want || len(p.Readings) != 2 {
		t.Errorf("container: %+v, want %+v", got, want)
	}
	want = metric.UsageReading{CPU: 357_354_910_000, CPUAt: time.UnixMilli(1790000001000), Memory: 1_616_273_408, MemoryAt: now}
	if got := p.Readings[metric.Container{}]; got != want {
		t.Errorf("node: %+v, want %+v", got, want)
	}
}

func TestLinesThatCannotBe(t *testing.T) {
	const good = `container_cpu_usage_seconds_total{namespace="a",pod="b",container="c"} 1 1790000000000` + "\n"
	for line, want := range map[string]string{
		good: "said twice",
		`container_cpu_usage_seconds_total{namespace="a",pod="b"} 1 1`:                   "not named",
		`container_memory_working_set_bytes{namespace="a",pod="b",container="c"} -1 1`:   "value is -1",
		`container_memory_working_set_bytes{namespace="a",pod="b",container="c"} NaN 1`:  "value is NaN",
		`container_memory_working_set_bytes{namespace="a",pod="b",container="c"} 1e30 1`: "value is 1e+30",
		`container_start_time_seconds{namespace="a",pod="b",container="c"} -62135596800`: "value is -6.21355968e+10",
		`container_memory_working_set_bytes{namespace="a",pod="b",container="c"} 1 -5`:   "number cannot be read",
		`container_memory_working_set_bytes{namespace="a",pod="b",container="c"} 1 2 3`:  "number cannot be read",
		`container_memory_working_set_bytes{namespace="a",pod="b",container="c} 1`:       "labels cannot be read",
		`container_memory_working_set_bytes{namespace`:                                   "labels cannot be read",
		`node_cpu_usage_seconds_total`:                                                   "number cannot be read",
	} {
		p, err := Parse(strings.NewReader(good+line), now)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if p.Faults != 1 || !strings.Contains(p.FirstFault, want) || !strings.HasPrefix(p.FirstFault, "line 2, ") {
			t.Errorf("%s: %d faults, %q; want one with %q", line, p.Faults, p.FirstFault, want)
		}
		if r := p.Readings[metric.Container{Namespace: "a", Pod: "b", Name: "c"}]; r.CPU != time.Second {
			t.Errorf("%s: the line before it was lost: %+v", line, r)
		}
	}
}

func TestPagesThatAreTooLarge(t *testing.T) {
	containers := new(strings.Builder)
	for i := range maxContainers + 1 {
		fmt.Fprintf(containers, "container_cpu_usage_seconds_total{namespace=\"a\",pod=\"%d\",container=\"c\"} 1 1\n", i)
	}
	for want, page := range map[string]string{
		"more than 20000 containers": containers.String(),
		"a line of more than":        strings.Repeat("x", maxLine+1),
		"more than 33554432 bytes":   strings.Repeat("# nothing\n", maxPage/10+1),
	} {
		if _, err := Parse(strings.NewReader(page), now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`container_cpu_usage_seconds_total{container="a\"\\\n",namespace="shop",pod="web-0",} 4.710169 1790000000123`)
	f.Add(`node_cpu_usage_seconds_total 1`)
	f.Fuzz(func(t *testing.T, page string) {
		p, err := Parse(strings.NewReader(page), now)
		if err != nil {
			return
		}
		for c, r := range p.Readings {
			if c != (metric.Container{}) && (c.Namespace == "" || c.Pod == "" || c.Name == "") || r.CPU < 0 {
				t.Errorf("%+v: %+v", c, r)
			}
		}
	})
}

func TestClient(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, location := http.StatusOK, ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics/resource" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		if location != "" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(status)
		fmt.Fprintln(w, "node_cpu_usage_seconds_total 5")
	}))
	defer server.Close()
	cfg := Config{Address: strings.TrimPrefix(server.URL, "https://"), TokenFile: token, InsecureTLS: true}
	read := func() error {
		c, err := NewClient(cfg)
		if err != nil {
			return err
		}
		p, err := c.Read(t.Context())
		if err == nil && p.Readings[metric.Container{}].CPU != 5*time.Second {
			t.Errorf("node: %+v", p.Readings[metric.Container{}])
		}
		return err
	}
	if err := read(); err != nil {
		t.Error(err)
	}
	for code, want := range map[int]string{401: "does not know the token", 403: `"get" "nodes/metrics"`, 500: "500", 302: "redirects"} {
		status, location = code, ""
		if code == 302 {
			location = server.URL + "/elsewhere"
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("after %d: %v, want %q", code, err, want)
		}
	}
	status, location, cfg.InsecureTLS = 200, "", false
	if err := read(); err == nil || !strings.Contains(err.Error(), "set kubelet-ca-file") {
		t.Errorf("an unknown authority: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"":                         func(*Config) {},
		"Interval is 1m0s":         func(c *Config) { c.Interval = time.Minute },
		"Address is \"kubelet\"":   func(c *Config) { c.Address = "kubelet" },
		"InsecureTLS is true, and": func(c *Config) { c.InsecureTLS, c.CAFile = true, "ca.crt" },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	cfg := DefaultConfig()
	if cfg.Address = "[192.0.2.7]:10250"; cfg.Validate() != nil { // as the chart writes it, for both families
		t.Error(cfg.Validate())
	}
}
