package kind

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// The parts of a gauge merge to one value, in whatever order they come.
func TestMergeGauges(t *testing.T) {
	part := func(value int64, at, follows uint64, shifts int64, rank int) GaugePart {
		return GaugePart{Value: metric.Int(value), At: at, Follows: follows, Shifts: metric.Int(shifts), Rank: rank}
	}
	for name, c := range map[string]struct {
		parts []GaugePart
		want  int64
	}{
		"the newest assignment":                   {[]GaugePart{part(3, 10, 0, 0, 0), part(5, 20, 0, 0, 1)}, 5},
		"of equal assignments, the least rank":    {[]GaugePart{part(3, 10, 0, 0, 0), part(5, 10, 0, 0, 1), part(7, 10, 0, 0, 2)}, 3},
		"shifts that follow the assignment":       {[]GaugePart{part(3, 10, 0, 0, 0), part(0, 15, 10, 4, 1)}, 7},
		"shifts that follow an earlier one":       {[]GaugePart{part(3, 10, 0, 0, 0), part(0, 15, 5, 4, 1)}, 3},
		"shifts alone":                            {[]GaugePart{part(3, 0, 0, 3, 0), part(4, 0, 0, 4, 1)}, 7},
		"an assignment on a clock that is behind": {[]GaugePart{part(3, 10, 0, 0, 0), {Value: metric.Int(5), At: 4, Ahead: 7 * time.Millisecond, Rank: 1}}, 5},
	} {
		for range len(c.parts) {
			if got, _ := MergeGauges(c.parts); got != metric.Int(c.want) {
				t.Errorf("%s: %s, want %d", name, got.Append(nil), c.want)
			}
			c.parts = append(slices.Clone(c.parts[1:]), c.parts[0])
		}
	}
}
