// Package cluster shows the product at its work: the autoscaler of a real control plane scales on
// metrics that pods push. The chart's own manifests are applied; Sluice's binary runs beside the
// API server with the rights that the chart gives it and no more. The pods are loopback addresses:
// what "they" send is bound to their pod IP.
//
// Namespaces keep the scenarios apart, so they run side by side; those that stop the server run
// alone, at the end.
package cluster

import (
	"testing"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
)

func TestMain(m *testing.M) { controlplane.Main(m, server.Remove) }
