// Package replicas runs several real binaries as replicas of one another and ends, freezes, cuts off
// and confuses them. The servers are standalone: what a control plane makes of their answers is in
// package cluster.
//
// The short form is the default. TORTURE=long lets faults last for five minutes. TestSilentNode needs
// root and is skipped without it.
package replicas

import (
	"os"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Remove()
	os.Exit(code)
}
