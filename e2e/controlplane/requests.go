package controlplane

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// label is a pair of a name and a value in a line of the API server's /metrics.
var label = regexp.MustCompile(`[{,](resource|verb)="([^"]*)"`)

// Requests is the number of requests to the API server so far for a kind of objects ("deployments"), by
// anyone, without lists and watches.
func (c *ControlPlane) Requests(ctx context.Context, resource string) (n int, err error) {
	page, err := c.Kubernetes.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "apiserver_request_total{") {
			continue
		}
		labels := map[string]string{}
		for _, pair := range label.FindAllStringSubmatch(line, -1) {
			labels[pair[1]] = pair[2]
		}
		if labels["resource"] != resource || labels["verb"] == "LIST" || labels["verb"] == "WATCH" {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		n += int(value)
	}
	return n, nil
}
