package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// asSluice makes this test binary behave as sluice itself, see TestMain.
const asSluice = "SLUICE_TEST_AS_MAIN"

// Every command of the banner works as it is printed, in the order in which it is printed, and
// those that read print what those that push pushed.
func TestBannerCommandsWork(t *testing.T) {
	t.Setenv(asSluice, "1")
	p := started(t, t.TempDir(), "--windows", "1m")
	if ran := runShown(t, p.banner()); ran < 3 {
		t.Errorf("%d commands tried, want at least bash's and our own two", ran)
	}
}

// runShown runs the commands in a text, one a line, checks what they print, and returns their number.
func runShown(t *testing.T, text string) (ran int) {
	t.Helper()
	for _, line := range strings.Split(text, "\n") {
		command := strings.TrimSpace(line)
		program, _, _ := strings.Cut(command, " ")
		if program != "bash" && program != "curl" && program != "kubectl" && program != binary() {
			continue
		}
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("not tried, there is no %s here: %s", program, command)
			continue
		}
		ran++
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		if want := answerOf(command); !strings.Contains(string(out), want) {
			t.Errorf("%s: want %s in\n%s", command, want, out)
		}
	}
	return ran
}

// answerOf is what a command of the banner must print.
func answerOf(command string) string {
	switch {
	case strings.HasPrefix(command, "bash"):
		return ""
	case strings.Contains(command, " push "):
		return "sent 1 line"
	case strings.Contains(command, "-X PUT"):
		return `"applied":1`
	case strings.Contains(command, "kubectl") && strings.HasSuffix(command, "/http_requests"):
		return `"metricName":"http_requests"`
	case strings.Contains(command, "kubectl"):
		return `"value":"42"`
	case strings.Contains(command, "--cacert"):
		return `"value": "2"`
	case strings.Contains(command, "queue_depth"):
		return "queue_depth   42 "
	case strings.Contains(command, "http_requests:count"):
		return "http_requests:count   2 "
	}
	return "http_requests   "
}

func TestBannerNamesThePorts(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir(), "--statsd-udp=")
	banner := p.banner()
	for _, want := range []string{reachable(p.push.Addr()), reachable(p.api.Addr()), reachable(p.opsAddr), p.kubeconfig, "tcp 127.0.0.1:"} {
		if !strings.Contains(banner, want) {
			t.Errorf("no %s in the banner:\n%s", want, banner)
		}
	}
	if strings.Contains(banner, "/dev/udp") {
		t.Errorf("the banner pushes over UDP, which is off:\n%s", banner)
	}
	if _, err := os.Stat(p.kubeconfig); err != nil {
		t.Error(err)
	}
}
