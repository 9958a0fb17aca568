package controlplane

import "time"

// Config is what may differ between control planes.
type Config struct {
	HPASync                time.Duration // between two looks of the autoscaler at its metrics
	DownscaleStabilization time.Duration // for autoscalers whose behavior says nothing
	StartTimeout           time.Duration // until the API server and the controllers answer
}

// DefaultConfig is quick where Kubernetes is patient: it syncs every 15 s and waits five minutes before it
// scales down.
func DefaultConfig() Config {
	return Config{HPASync: 5 * time.Second, DownscaleStabilization: 15 * time.Second, StartTimeout: 90 * time.Second}
}
