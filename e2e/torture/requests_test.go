package torture

import (
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

// storeSays is the line of /readyz about persistence.
func storeSays(s *server.Server) string {
	checks, err := s.Checks()
	if err != nil {
		return "no answer: " + err.Error()
	}
	return checks["store"].Detail
}
