// Package keda tests the external scaler with KEDA's real operator and adapter in a real control
// plane. Tests share those, and each has a namespace, a server and certificates of its own, so they
// run in parallel.
//
// The binaries of KEDA take 13 minutes of a processor to build. Without them the tests are skipped;
// "make keda" builds them, once.
package keda

import (
	"testing"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
)

func TestMain(m *testing.M) { controlplane.Main(m, stopShared, server.Remove) }
