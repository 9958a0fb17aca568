package valuelist

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	// errNotANumber is for NaN and infinities, which have no Quantity.
	ErrNotANumber = errors.New("not a number")
	// errOverflow is for what the autoscaler would compute a wrong number of.
	ErrOverflow = errors.New("beyond what the autoscaler can compute")
)

const (
	// maxWhole is the largest integer whose milli value fits int64.
	maxWhole = math.MaxInt64 / 1000
	// maxMilliNanos is how many billionths there may be beyond maxWhole: milli values are rounded up.
	maxMilliNanos = math.MaxInt64 % 1000 * 1_000_000
)

// quantityOf converts without losing what a Quantity can hold: see "Values" in the package's documentation.
func quantityOf(n metric.Number) (resource.Quantity, error) {
	whole, nano, ok := n.Rounded()
	switch {
	case !ok && (math.IsNaN(n.Float64()) || math.IsInf(n.Float64(), 0)):
		return resource.Quantity{}, fmt.Errorf("the value is %v: %w", n.Float64(), ErrNotANumber)
	case !ok, !fitsMilli(whole, nano):
		return resource.Quantity{}, overflowing(n)
	case nano == 0:
		return *resource.NewQuantity(whole, resource.DecimalSI), nil
	}
	// A Quantity beyond int64 at its scale would be exact, too, but its MilliValue is wrong where it is negative.
	for _, scale := range [...]resource.Scale{resource.Nano, resource.Micro} {
		units := int64(math.Pow10(int(-scale)))
		if most := math.MaxInt64/units - 1; whole <= most && whole >= -most {
			return scaled(whole, nano, units, scale), nil
		}
	}
	return scaled(whole, nano, 1000, resource.Milli), nil
}

// scaled is a number in whole units of a scale, of which there are so many in one.
func scaled(whole int64, nano int32, units int64, scale resource.Scale) resource.Quantity {
	part := math.Round(float64(nano) * float64(units) / metric.Nanos)
	return *resource.NewScaledQuantity(whole*units+int64(part), scale)
}

// fitsMilli reports whether a number's milli value, which is rounded away from 0, fits int64.
func fitsMilli(whole int64, nano int32) bool {
	switch whole {
	case maxWhole, -maxWhole:
		return max(nano, -nano) <= maxMilliNanos
	}
	return whole < maxWhole && whole > -maxWhole
}

// appendQuantity appends the text of a number that quantityOf takes. An integer without three zeros at its end is its digits: a
// Quantity would only take the zeros off and put a suffix in their place.
func appendQuantity(dst []byte, n metric.Number) []byte {
	if whole, ok := n.Int64(); ok && (whole%1000 != 0 || whole == 0) {
		return strconv.AppendInt(dst, whole, 10)
	}
	q, _ := quantityOf(n)
	digits, suffix := q.CanonicalizeBytes(dst[len(dst):]) // which uses the room there is
	return append(append(dst, digits...), suffix...)
}

func overflowing(n metric.Number) error {
	return fmt.Errorf("the value %s is %w: its milli value leaves int64 (at most %d)", n.Append(nil), ErrOverflow, int64(maxWhole))
}

// milliSum adds up as the autoscaler does, over whichever items it may pick: so the positive ones and the
// negative ones each have to fit alone.
type milliSum struct{ positive, negative int64 }

func (s *milliSum) add(q resource.Quantity) error {
	milli := q.MilliValue()
	if (milli > 0 && s.positive > math.MaxInt64-milli) || (milli < 0 && s.negative < math.MinInt64-milli) {
		return fmt.Errorf("the sum of the values is %w: its milli value leaves int64", ErrOverflow)
	}
	if milli > 0 {
		s.positive += milli
	} else {
		s.negative += milli
	}
	return nil
}
