package limit

import "testing"

func TestIgnoredPatterns(t *testing.T) {
	p, err := ParsePatterns([]string{"datadog.dogstatsd.client.*", "a*b*c", "plain"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"datadog.dogstatsd.client.metrics": true, "datadog.dogstatsd.clients": false, "plain": true, "plainer": false,
		"abc": true, "axbxc": true, "ac": false, "acb": false, "abcc": true, "abcb": false,
	} {
		if got := p.Match(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	if _, err := ParsePatterns([]string{"*", ""}); err == nil {
		t.Error("a pattern that ignores everything was accepted")
	}
}
