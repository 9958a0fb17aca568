package limit

import (
	"hash/maphash"
	"math"
	"math/bits"

	"github.com/sluice-metrics/sluice/metric"
)

// unmet estimates how many different series were rejected: each sets a bit, and the share of bits
// that are still 0 tells the number (linear counting; Whang, Vander-Zanden and Taylor, 1990). The
// error is about 3 percent up to 2,000 series, and 128 bytes are kept of a quota that rejects.
type unmet [16]uint64

const unmetBits = 64 * len(unmet{})

func (u *unmet) add(hash uint64) {
	bit := hash % uint64(unmetBits)
	u[bit/64] |= 1 << (bit % 64)
}

// estimate is the number of different hashes, at most about 7,000.
func (u *unmet) estimate() int {
	if u == nil {
		return 0
	}
	zeros := unmetBits
	for _, word := range u {
		zeros -= bits.OnesCount64(word)
	}
	return int(math.Round(float64(unmetBits) * math.Log(float64(unmetBits)/float64(max(zeros, 1)))))
}

// countUnmetLocked counts a rejected series.
func (r *Registry) countUnmetLocked(rare *quotaExtras, o *metric.Object, name string, labels metric.Labels) {
	if rare.unmet == nil {
		rare.unmet = &unmet{}
	}
	rare.unmet.add(maphash.Comparable(r.seed, struct {
		object       metric.Object
		name, labels string
	}{*o, name, labels.Packed()}))
}

// wanted is the number of metrics and series with which nothing would have been rejected since the
// limit changed; 0: nothing was.
func (s *quota) wanted() (metrics, series int) {
	if len(s.rejected()) == 0 {
		return 0, 0
	}
	metrics = int(s.metrics)
	for name := range s.rejected() {
		if s.slot(name) == nil {
			metrics++
		}
	}
	return metrics, int(s.series) + s.extras.unmet.estimate()
}
