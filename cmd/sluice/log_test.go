package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestDurationsAreSpelledOut(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		newLogger(&out, logConfig{format: format}).Info("restored", "took", 1500*time.Millisecond)
		if !strings.Contains(out.String(), "1.5s") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}
