package server

import (
	"fmt"
	"strings"
	"testing"
)

// ReplicaFlags returns the flags that make each of n servers a replica of the others, on free ports
// and without TLS.
func ReplicaFlags(t *testing.T, n int) (flags [][]string) {
	t.Helper()
	var routes []string
	for range n {
		routes = append(routes, FreeAddress(t, "tcp"))
	}
	for i, route := range routes {
		flags = append(flags, []string{"--replica-insecure", "--replica-name", fmt.Sprint("sluice-", i),
			"--replica-listen", route, "--replica-peers", strings.Join(routes, ",")})
	}
	return flags
}
