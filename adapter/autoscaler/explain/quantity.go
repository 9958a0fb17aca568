package explain

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Number is a quantity ("1500m") as a number; NaN: the text is none.
func Number(quantity string) float64 {
	q, err := resource.ParseQuantity(quantity)
	if err != nil {
		return math.NaN()
	}
	return q.AsApproximateFloat64()
}
