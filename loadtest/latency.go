package loadtest

import (
	"math"
	"math/rand/v2"
)

const (
	medianLatency = 20.0 // ms
	latencySpread = 0.7  // of the logarithm
)

// latency draws a latency in milliseconds.
func latency(random *rand.Rand) int64 {
	return int64(min(max(medianLatency*math.Exp(latencySpread*random.NormFloat64()), 1), 999))
}
