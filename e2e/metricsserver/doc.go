// Package metricsserver compares what Sluice says that pods and nodes use with metrics-server, number by number: both read the
// page of one kubelet. It is a module of its own: metrics-server brings Prometheus.
package metricsserver
