package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-metrics/sluice/store/folder"
)

// TestKilledInTheTrial: a process that is killed during the probe doesn't make its database
// suspect, however often that happens.
func TestKilledInTheTrial(t *testing.T) {
	t.Parallel()
	dir, model := makeDatabase(t)
	scratch := filepath.Join(dir, folder.ProbeName)
	for range folder.MaxDeaths {
		eventually(t, "the last trial's folder is gone", func() bool { return os.RemoveAll(scratch) == nil })
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+dir, hangingProbeEnv+"=1")
		must(t, child.Start())
		t.Cleanup(func() { _ = child.Process.Kill() })
		eventually(t, "the trial has begun", func() bool { _, err := os.Stat(scratch); return err == nil })
		must(t, child.Process.Kill())
		_ = child.Wait()
	}
	restored := newModel(0)
	s := mustOpen(t, dir, restored)
	model.mustEqual(t, restored)
	if _, detail := s.Detail(); s.count.setAside.Load() > 0 {
		t.Error(detail)
	}
	mustClose(t, s)
}
