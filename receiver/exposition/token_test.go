package exposition

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// Numbers are strconv's, bit by bit, however they are read.
func TestNumbersAreTheNearest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		text := strconv.FormatUint(random.Uint64N(1e18)>>random.IntN(60), 10)
		if point := random.IntN(len(text) + 2); point <= len(text) {
			text = text[:point] + "." + text[point:]
		}
		if random.IntN(3) == 0 {
			text = "-" + text
		}
		want, _ := strconv.ParseFloat(text, 64)
		if got, ok := parseFloat([]byte(text)); !ok || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%s: %v, %t", text, got, ok)
		}
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "-0", "+1": "1", "1.": "1", ".5": "0.5", "-.5": "-0.5", "000000000000000000001": "1", "1e-400": "0", "1E3": "1000",
		"999999999999999": "9.99999999999999e+14", "9007199254740993": "9.007199254740992e+15", "0.000000000000001": "1e-15",
		"inf": "+Inf", "+Infinity": "+Inf", "-INF": "-Inf", "nan": "NaN",
		"": "", "-": "", ".": "", "-.": "", "1.2.3": "", "--1": "", "+-1": "", "1e": "", "1,5": "", "0x1p4": "", "0x10": "", "1_0": "", "1e999": "", "+nan": "",
		"infinit": "", "1 ": "", strings.Repeat("9", 400): "",
	} {
		got := ""
		if v, ok := parseFloat([]byte(text)); ok {
			got = fmt.Sprint(v)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
