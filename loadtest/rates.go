package loadtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// FlatOut is the rate of a sender that sends as fast as it can.
const FlatOut = 0

// flatOutWord is FlatOut in a list of rates.
const flatOutWord = "max"

// maxRate is a bound against overflow, above any real load.
const maxRate = 1_000_000_000

// pacedSeconds is the time of a paced run: long enough for several flushes and for every other
// server's flush.
const pacedSeconds = 10

// lines returns the default number of lines of a run at a rate.
func (s Scenario) lines(rate int) int {
	if rate == FlatOut {
		return s.Lines
	}
	return pacedSeconds * rate
}

// Rates are loads in lines per second. It is a flag: rates separated by commas.
type Rates []int

// Set parses a list such as "20000,400000,max".
func (r *Rates) Set(text string) error {
	var rates Rates
	for _, word := range strings.Split(text, ",") {
		rate, err := parseRate(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		if slices.Contains(rates, rate) {
			return fmt.Errorf("rate %q is given twice", word)
		}
		rates = append(rates, rate)
	}
	*r = rates
	return nil
}

func parseRate(word string) (int, error) {
	if word == flatOutWord {
		return FlatOut, nil
	}
	rate, err := strconv.Atoi(word)
	if err != nil || rate < 1 || rate > maxRate {
		return 0, fmt.Errorf("rate is %q; must be %s, or 1 to %d lines per second", word, flatOutWord, maxRate)
	}
	return rate, nil
}

func (r *Rates) String() string {
	words := make([]string, len(*r))
	for i, rate := range *r {
		words[i] = strconv.Itoa(rate)
		if rate == FlatOut {
			words[i] = flatOutWord
		}
	}
	return strings.Join(words, ",")
}

// Type is the placeholder in the help.
func (r *Rates) Type() string { return "list" }

// rateText describes a rate.
func rateText(rate int) string {
	if rate == FlatOut {
		return "flat out"
	}
	return grouped(float64(rate)) + " lines/s"
}
