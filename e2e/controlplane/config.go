package controlplane

import "time"

// Config is the configuration of a control plane.
type Config struct {
	HPASync                time.Duration // between two reads of an autoscaler's metrics
	DownscaleStabilization time.Duration // for autoscalers whose behavior sets none
	StartTimeout           time.Duration // until the API server and the controllers answer
	// FeatureGates of the API server and the controllers, as in "HPAScaleToZero=true"; empty:
	// Kubernetes' defaults.
	FeatureGates string
}

// DefaultConfig is faster than Kubernetes' defaults, which sync every 15 s and wait five minutes
// before they scale down.
func DefaultConfig() Config {
	return Config{HPASync: 5 * time.Second, DownscaleStabilization: 15 * time.Second, StartTimeout: 90 * time.Second}
}
