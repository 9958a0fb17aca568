package keda

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// explain runs "sluice explain" of the ScaledObject as the administrator.
func (s *scaled) explain(t *testing.T) (code int, text string) {
	t.Helper()
	out, err := exec.Command(s.sluice.Binary(), "explain", "scaledobject/worker", "-n", s.namespace, "--kubeconfig", s.Kubeconfig).CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if failed != nil {
		code = failed.ExitCode()
	}
	return code, string(out)
}

// TestExplain: what the real operator and adapter write and answer is understood.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := prepare(t, "explained")
	s.push(t, jobs(35))
	says := func(wantCode int, parts ...string) {
		t.Helper()
		server.Eventually(t, func() (complaint string) {
			code, text := s.explain(t)
			for _, part := range parts {
				if !strings.Contains(text, part) || code != wantCode {
					return part + " is not in, or the code is not as it should be:\n" + text
				}
			}
			return ""
		})
	}
	s.scale(t, scaledObject{1, 5, []string{s.trigger(`metric: "jobs:last"`, `absent: "0"`)}})
	s.awaitReplicas(t, 4)
	says(0, "Nothing is wrong.", "KEDA gets   35: active", "made by KEDA", "35 / 10, rounded up: 4 replicas")
	s.scale(t, scaledObject{1, 5, []string{s.trigger(`metirc: "jobs:last"`)}})
	says(1, "(trigger-metadata)", `did you mean "metric"?`)
	s.scale(t, scaledObject{1, 5, []string{s.trigger(`metric: "never:last"`)}})
	s.awaitEvent(t, "KEDAScalerFailed", "NotFound")
	says(1, "KEDA gets   no value", "(never-pushed)")
}
