package loadtest

import (
	"strings"
	"testing"
)

func TestConfigNamesAllFaults(t *testing.T) {
	good := DefaultConfig()
	good.Binary = "sluice"
	if err := good.Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	err := Config{Scenarios: []string{"tagged-10"}, Lines: -1, Rate: -1}.Validate()
	for _, want := range []string{"binary: ", `scenario: "tagged-10": want tagged-10k, plain-10k, timers-10k, single-10k`, "lines: -1", "rate: -1", "runs: 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("faults %v: want one of %q", err, want)
		}
	}
}
