package explain

import (
	"math"
	"testing"
)

func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{"12": 12, "1500m": 1.5, "2k": 2000, "1Ki": 1024, "1e3": 1000, "-3": -3} {
		if got := Number(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "x", "NaN", "NaNm"} {
		if got := Number(text); !math.IsNaN(got) {
			t.Errorf("%q: %v", text, got)
		}
	}
}
