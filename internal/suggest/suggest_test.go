package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	settings := []string{"max-series", "max-bytes", "statsd-udp", "statsd-tcp", "http-address", "api-address", "trust", "windows", "log-format"}
	for word, want := range map[string]string{
		"max-serie": "max-series", "maxseries": "max-series", "windws": "windows", "trsut": "trust", "tst": "trust", "format": "log-format",
		"log": "log-format", "http": "http-address", "statsd": "", "address": "", "xyz": "", "": "", "t": "",
	} {
		if got := Nearest(word, settings); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}

// A comparison takes the product of both lengths, so long words have no suggestion, and no word is compared with one that
// is much longer.
func TestLongWordsHaveNoSuggestion(t *testing.T) {
	for length, want := range map[int]bool{maxWord: true, maxWord + 1: false, 60_000: false} {
		word := strings.Repeat("m", length)
		if got := Nearest(word, []string{word + "x"}); (got != "") != want {
			t.Errorf("%d bytes: a suggestion of %d", length, len(got))
		}
	}
	if got := Nearest("ab", []string{strings.Repeat("ab", 2000), "abc"}); got != "abc" {
		t.Errorf("nearest to ab is a word of %d bytes", len(got))
	}
}
