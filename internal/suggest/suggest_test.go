package suggest

import "testing"

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
