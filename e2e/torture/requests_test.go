package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// client has a timeout, because some of the servers here do not answer.
var client = &http.Client{
	Timeout: 15 * time.Second,
	Transport: &http.Transport{
		DisableKeepAlives: true, // a server that was killed leaves nothing behind
		DialContext:       (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	},
}

// push sends a value to an external metric of namespace "e2e". err is nil if it was acknowledged.
func push(s *server.Server, method, metric string, value int64) error {
	req, err := http.NewRequest(method, "http://"+s.HTTP+"/v1/namespaces/e2e/external/"+metric, strings.NewReader(fmt.Sprint(value)))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

// check is one line of /readyz.
type check struct {
	Name   string
	Ready  bool
	Detail string
}

// readiness reads the checks of /readyz.
func readiness(s *server.Server) (map[string]check, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+s.Ops+"/readyz", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var all struct{ Checks []check }
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return nil, err
	}
	named := map[string]check{}
	for _, c := range all.Checks {
		named[c.Name] = c
	}
	return named, nil
}

// storeSays is the line of /readyz about persistence.
func storeSays(s *server.Server) string {
	checks, err := readiness(s)
	if err != nil {
		return "no answer: " + err.Error()
	}
	return checks["store"].Detail
}
