package controlplane

import "time"

// patience ends what hangs: a slow machine may need minutes for what an idle one does at once.
const patience = 10 * time.Minute

// Config is the configuration of a control plane.
type Config struct {
	HPASync                time.Duration // between two reads of an autoscaler's metrics
	DownscaleStabilization time.Duration // for autoscalers whose behavior sets none
	StartTimeout           time.Duration // until the API server and the controllers answer
	// FeatureGates of the API server and the controllers, as in "HPAScaleToZero=true"; empty:
	// Kubernetes' defaults.
	FeatureGates string
	// ControllerQPS is the number of requests a second that a client of the controllers may send, twice that at once,
	// with 20 autoscalers in work. 0: Kubernetes' defaults, 20 (30 at once) and 5.
	ControllerQPS int
}

// DefaultConfig is faster than Kubernetes' defaults, which sync every 15 s and wait five minutes
// before they scale down.
func DefaultConfig() Config {
	return Config{HPASync: 5 * time.Second, DownscaleStabilization: 15 * time.Second, StartTimeout: patience}
}
