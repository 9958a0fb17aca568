// Package chart tests charts/sluice with the real Helm, as a pinned tool: what it renders against
// goldens, against the Kubernetes types and against PodSecurity's own rules; what it refuses; that
// its alerts, dashboard and README speak of what exists. It needs no cluster: where the chart looks
// into one, a stand-in answers. That what is rendered works on a real API server is for e2e/ to
// show.
//
// Run it with -count=1: Go remembers a result until a file of this module changes, and the chart is
// none.
//
// It never imports the product, and nothing imports it.
package chart
