package main

import (
	"strings"
	"testing"
)

// Before everything is made, the checks answer (nothing of the path is there yet) and say what is
// waited for.
func TestNotReadyBeforeItIsWired(t *testing.T) {
	p := &dataPath{cfg: &serverConfig{standalone: true}}
	p.progress.wait("restoring the store")
	told := false
	for _, check := range p.checks() {
		ready, detail := check.State()
		if ready {
			t.Errorf("%s is ready before it was made", check.Name)
		}
		told = told || detail == "restoring the store"
	}
	if !told {
		t.Error("no check says what is waited for")
	}
}

func TestReadyWhenWired(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	for _, check := range p.checks() {
		ready, detail := check.State()
		if !ready {
			t.Errorf("%s is not ready: %s", check.Name, detail)
		}
		if check.Name == "listeners" && !strings.Contains(detail, p.push.Addr().String()) {
			t.Errorf("listeners are %q, want %s among them", detail, p.push.Addr())
		}
	}
}
