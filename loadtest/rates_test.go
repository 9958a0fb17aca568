package loadtest

import (
	"slices"
	"strings"
	"testing"
)

func TestRates(t *testing.T) {
	var r Rates
	if err := r.Set("20000, 100000,400000,max"); err != nil || !slices.Equal(r, Rates{20_000, 100_000, 400_000, FlatOut}) {
		t.Errorf("%v, %v: want three rates and flat out", r, err)
	}
	if got := r.String(); got != "20000,100000,400000,max" {
		t.Errorf("written %q", got)
	}
	for text, want := range map[string]string{
		"":                    `rate is ""; must be max, or 1 to`,
		"0":                   `rate is "0"; must be`,
		"-1":                  `rate is "-1"; must be`,
		"20000,,max":          `rate is ""; must be`,
		"20k":                 `rate is "20k"; must be`,
		"1000000001":          `rate is "1000000001"; must be`,
		"9223372036854775808": `rate is "9223372036854775808"; must be`,
		"20000,max,20000":     `rate "20000" is given twice`,
	} {
		if err := r.Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if len(r) != 4 {
		t.Errorf("%v: want that a wrong list changes nothing", r)
	}
}
