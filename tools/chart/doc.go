// Package chart tests charts/sluice with the real Helm, as a pinned tool. It checks the rendered
// manifests against goldens, the Kubernetes types and the PodSecurity rules. It checks which values
// the chart rejects, and that alerts, dashboard and README name only existing things. It needs no
// cluster: a stand-in answers the chart's lookups. The tests in e2e/ show that the manifests work
// on a real API server.
//
// Run the tests with -count=1: Go caches a result until a file of this module changes, and the
// chart is outside of it.
//
// Package chart never imports the product, and nothing imports it.
package chart
