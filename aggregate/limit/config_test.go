package limit

import (
	"strings"
	"testing"
)

func TestConfigFaults(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{PodMetrics: -1, PodSeries: Max + 1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "PodMetrics is -1") || !strings.Contains(err.Error(), "PodSeries is ") {
		t.Error(err)
	}
}
