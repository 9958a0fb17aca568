package loadtest

import (
	"strings"
	"testing"
)

func TestTooLittleDiskSpaceIsRejected(t *testing.T) {
	if err := diskSpaceFault("/tmp", minFreeBytes); err != nil {
		t.Errorf("just enough: %v", err)
	}
	if err := diskSpaceFault("/tmp", 300<<20); err == nil || !strings.Contains(err.Error(), "/tmp has 300 MiB of free space; must have 1024 MiB") {
		t.Errorf("error %v: want the free and the required space", err)
	}
	cfg := DefaultConfig()
	cfg.Binary = "/bin/false"
	t.Setenv("TMPDIR", "/proc") // it has no free space
	if _, err := Measure(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "/proc has 0 MiB of free space") {
		t.Errorf("error %v: want that there is no space", err)
	}
}
