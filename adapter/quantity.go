package adapter

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
	errNotANumber = errors.New("not a number")
	// errOverflow is for what the autoscaler would compute a wrong number of.
	errOverflow = errors.New("beyond what the autoscaler can compute")
)

const (
	// maxWhole is the largest integer whose milli value fits int64.
	maxWhole = math.MaxInt64 / 1000
	// maxNanoWhole is the largest integer that fits int64 in nanos with any fraction behind it.
	maxNanoWhole = math.MaxInt64/1_000_000_000 - 1
)

// quantityOf converts without losing what a Quantity can hold: see "Values" in the package's documentation.
func quantityOf(n metric.Number) (resource.Quantity, error) {
	whole, isInt := n.Int64()
	fraction := 0.0
	if !isInt {
		var float float64
		if float, fraction = math.Modf(n.Float64()); math.IsNaN(float) || math.IsInf(float, 0) {
			return resource.Quantity{}, fmt.Errorf("the value is %v: %w", n.Float64(), errNotANumber)
		}
		if math.Abs(float) >= 1<<63 {
			return resource.Quantity{}, overflowing(n)
		}
		whole = int64(float)
	}
	switch {
	case whole > maxWhole || whole < -maxWhole:
		return resource.Quantity{}, overflowing(n)
	case fraction == 0:
		return *resource.NewQuantity(whole, resource.DecimalSI), nil
	case whole <= maxNanoWhole && whole >= -maxNanoWhole:
		nano := whole*1_000_000_000 + int64(math.Round(fraction*1e9))
		return *resource.NewScaledQuantity(nano, resource.Nano), nil
	default:
		milli := whole*1000 + int64(math.Round(fraction*1000))
		return *resource.NewScaledQuantity(milli, resource.Milli), nil
	}
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
	value := fmt.Sprint(n.Float64())
	if whole, ok := n.Int64(); ok {
		value = fmt.Sprint(whole)
	}
	return fmt.Errorf("the value %s is %w: its milli value leaves int64 (at most %d)", value, errOverflow, int64(maxWhole))
}

// milliSum adds up as the autoscaler does, over whichever items it may pick: so the positive ones and the
// negative ones each have to fit alone.
type milliSum struct{ positive, negative int64 }

func (s *milliSum) add(q resource.Quantity) error {
	milli := q.MilliValue()
	if (milli > 0 && s.positive > math.MaxInt64-milli) || (milli < 0 && s.negative < math.MinInt64-milli) {
		return fmt.Errorf("the sum of the values is %w: its milli value leaves int64", errOverflow)
	}
	if milli > 0 {
		s.positive += milli
	} else {
		s.negative += milli
	}
	return nil
}
