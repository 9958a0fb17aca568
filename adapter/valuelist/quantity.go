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
	// ErrNotANumber is for NaN and infinities, which have no Quantity.
	ErrNotANumber = errors.New("not a number")
	// ErrOverflow is for numbers that the autoscaler would compute wrongly.
	ErrOverflow = errors.New("beyond what the autoscaler can compute")
)

const (
	// maxWhole is the largest integer whose milli value fits int64.
	maxWhole = math.MaxInt64 / 1000
	// maxMilliNanos is how many billionths may exceed maxWhole, because milli values are rounded
	// up.
	maxMilliNanos = math.MaxInt64 % 1000 * 1_000_000
)

// quantityOf converts a number without losing what a Quantity can hold (see "Values" in package
// adapter).
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
	// A Quantity beyond int64 at its scale would be exact too, but its MilliValue is wrong for
	// negative numbers.
	for _, scale := range [...]resource.Scale{resource.Nano, resource.Micro} {
		units := int64(math.Pow10(int(-scale)))
		if limit := math.MaxInt64/units - 1; whole <= limit && whole >= -limit {
			return scaled(whole, nano, units, scale), nil
		}
	}
	return scaled(whole, nano, 1000, resource.Milli), nil
}

// Quantity returns a number as Kubernetes writes it ("1500m"), or the error of a list that has it.
func Quantity(n metric.Number) (string, error) {
	q, err := quantityOf(n)
	if err != nil {
		return "", err
	}
	return q.String(), nil
}

// scaled is a number at a scale that has units per 1.
func scaled(whole int64, nano int32, units int64, scale resource.Scale) resource.Quantity {
	part := math.Round(float64(nano) * float64(units) / metric.Nanos)
	return *resource.NewScaledQuantity(whole*units+int64(part), scale)
}

// fitsMilli reports whether a number's milli value, rounded away from 0, fits int64.
func fitsMilli(whole int64, nano int32) bool {
	switch whole {
	case maxWhole, -maxWhole:
		return max(nano, -nano) <= maxMilliNanos
	}
	return whole < maxWhole && whole > -maxWhole
}

// appendQuantity appends the text of a number that quantityOf accepts. An integer without three
// trailing zeros is its digits; other numbers get a suffix from Quantity.
func appendQuantity(dst []byte, n metric.Number) []byte {
	if whole, ok := n.Int64(); ok && (whole%1000 != 0 || whole == 0) {
		return strconv.AppendInt(dst, whole, 10)
	}
	q, _ := quantityOf(n)
	digits, suffix := q.CanonicalizeBytes(dst[len(dst):]) // uses the spare capacity
	return append(append(dst, digits...), suffix...)
}

func overflowing(n metric.Number) error {
	return fmt.Errorf("the value %s is %w: its milli value leaves int64 (at most %d)", n.Append(nil),
		ErrOverflow, int64(maxWhole))
}

// milliSum adds up as the autoscaler does. It may leave any item out, so the positive and the
// negative values must fit int64 separately.
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
