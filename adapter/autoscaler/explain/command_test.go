package explain

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// hostileName is a metric's name that would run commands of its pusher's.
const hostileName = "a;touch b&echo $(id) `id` 'x'"

func TestWord(t *testing.T) {
	for text, want := range map[string]string{"http_requests:rate:10s": "http_requests:rate:10s", "queue/depth": "queue/depth", "ops:robot": "ops:robot",
		"": "''", "a b": "'a b'", "$HOME": "'$HOME'", "it's": `'it'\''s'`, "a=b": "a=b", "=b": "'=b'", "~root": "'~root'", "größe": "'größe'"} {
		if got := Word(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	out, err := exec.Command("sh", "-c", "printf %s "+Word(hostileName)).Output()
	if err != nil || string(out) != hostileName {
		t.Errorf("a shell makes %q of it (%v)", out, err)
	}
}

// The commands of no finding run what a name says. A shell reads each with its words printed instead.
func TestCommandsAreSafeToCopy(t *testing.T) {
	for name, c := range map[string]func(*Facts){
		"other-kind":   func(f *Facts) { f.Readings[0] = Reading{Asked: true, Code: 400, Fault: "no stat"} },
		"other-object": func(f *Facts) { f.Autoscaler.Metrics[0].Source = "Object"; f.Autoscaler.Metrics[0].ObjectKind = "Pod" },
		"here":         func(*Facts) {},
		"elsewhere": func(f *Facts) {
			f.Metrics[0].Namespace = "billing"
			f.Autoscaler.Metrics[0].Source = "External"
			f.Senders = []inspect.MetricSender{{Metric: "billing", Name: hostileName, Sort: "account"}}
		},
		"misspelt": func(f *Facts) { f.Metrics[0].Name = hostileName + "s"; f.Metrics[0].Resource = "pods" },
		"keda": func(f *Facts) {
			f.Autoscaler.Metrics[0].Source, f.Autoscaler.Metrics[0].Selector, f.Autoscaler.Metrics[0].Name = "External", "scaledobject.keda.sh/name=worker", "s0-x"
			f.Triggers = []Trigger{{Metric: hostileName}}
		},
	} {
		f := shop()
		f.Autoscaler.Metrics[0].Name, f.Metrics[0].Name = hostileName, hostileName
		f.Readings = []Reading{{Asked: true, Code: 404, Fault: "none"}}
		c(f)
		r := Autoscaler(f)
		commands := 0
		for _, finding := range r.Findings {
			for _, line := range finding.Remedy {
				at := strings.Index(line, "sluice ")
				for _, begin := range []string{"kubectl ", "curl "} {
					if at < 0 || strings.HasPrefix(line, begin) {
						at = strings.Index(line, begin)
					}
				}
				if at < 0 {
					continue
				}
				commands++
				out, err := exec.Command("sh", "-c", "cat() { :; }; touch() { echo RAN; }; id() { echo RAN; }; echo() { command echo RAN; }; sluice() { :; }; kubectl() { :; }; curl() { :; }; "+line[at:]).CombinedOutput()
				if err != nil || len(out) > 0 {
					t.Errorf("%s: %s\n%s (%v)", name, line, out, err)
				}
			}
		}
		if commands == 0 {
			t.Errorf("%s has no command: %+v", name, r.Findings)
		}
	}
}
