package loadtest

import (
	"strings"
	"testing"
)

func TestTooLittleRoomIsRefused(t *testing.T) {
	if err := roomFault("/tmp", leastRoom); err != nil {
		t.Errorf("just enough: %v", err)
	}
	if err := roomFault("/tmp", 300<<20); err == nil || !strings.Contains(err.Error(), "/tmp has 300 MiB free: want 1024 MiB") {
		t.Errorf("error %v: want how much is free and how much is wanted", err)
	}
	cfg := DefaultConfig()
	cfg.Binary = "/bin/false"
	t.Setenv("TMPDIR", "/proc") // nothing is free there
	if _, err := Measure(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "/proc has 0 MiB free") {
		t.Errorf("error %v: want that there is no room", err)
	}
}
