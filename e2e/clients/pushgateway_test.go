package clients

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// passwords are as "htpasswd -nB -C 8 warehouse" prints them for the password "open sesame".
const passwords = "warehouse:$2a$08$L9/IE8JH1wnhQlWEQBwzwOJBcOKgRLoEcnFDxQH52qTb3dJgCvlTW\n"

// client_golang's pusher sends a name and a password, or none, as to a Pushgateway.
func TestPushgatewayClientWithAPassword(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "passwords")
	must(t, os.WriteFile(file, []byte(passwords), 0o600))
	asking, open := server.New(t, "--push-basic-auth-file", file), server.New(t)
	asking.Start()
	open.Start()
	rows := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rows"})
	rows.Set(17)
	pusher := func(s *server.Server) *push.Pusher { return push.New("http://"+s.HTTP, "import").Collector(rows) }
	do(t,
		pusher(asking).BasicAuth("warehouse", "open sesame").Push(),
		pusher(asking).BasicAuth("warehouse", "open sesame").Add(),
		pusher(open).BasicAuth("warehouse", "whatever").Push(), // a server without passwords ignores them
		pusher(open).Push())
	for name, err := range map[string]error{
		"no password":    pusher(asking).Push(),
		"a wrong one":    pusher(asking).BasicAuth("warehouse", "open").Push(),
		"another's name": pusher(asking).BasicAuth("nobody", "open sesame").Delete(),
	} {
		if err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("%s: %v", name, err)
		}
	}
	want(t, asking, map[string]float64{"rows": 17})
	do(t, pusher(asking).BasicAuth("warehouse", "open sesame").Delete())
	answer, err := http.Get("http://" + asking.HTTP + "/metrics")
	must(t, err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(answer.Header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("GET /metrics without a password: %s, WWW-Authenticate %q", answer.Status, answer.Header.Get("WWW-Authenticate"))
	}
	asking.Metrics().CheckLaw(t, "http")
}
