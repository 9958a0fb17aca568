package client

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

// scaling are autoscalers, one of each rank.
const scaling = `{"items":[
	{"namespace":"shop","name":"calm","targetKind":"Deployment","minReplicas":1,"maxReplicas":5,"currentReplicas":2,"desiredReplicas":2,
	 "metrics":[{"source":"Pods","name":"busy","targetType":"AverageValue","target":"10","asked":true,"value":"10500m"}]},
	{"namespace":"shop","name":"held","targetKind":"Deployment","minReplicas":1,"maxReplicas":4,"currentReplicas":4,"desiredReplicas":4,
	 "metrics":[{"source":"External","name":"jobs","targetType":"AverageValue","target":"10","asked":true,"value":"80"},
	            {"source":"Resource","name":"cpu","targetType":"Utilization","target":"60%","current":"30%"}],
	 "conditions":[{"type":"ScalingLimited","status":"True","reason":"TooManyReplicas","message":"the desired replica count is more than the maximum replica count"}]},
	{"namespace":"shop","name":"broken","targetKind":"Deployment","minReplicas":0,"maxReplicas":9,"currentReplicas":1,"desiredReplicas":1,
	 "metrics":[{"source":"External","name":"orders\u001b[2J","targetType":"Value","target":"5","asked":true,"missing":true,"why":"never pushed"}]},
	{"namespace":"mail","name":"moving","targetKind":"Deployment","minReplicas":1,"maxReplicas":9,"currentReplicas":2,"desiredReplicas":3,
	 "metrics":[{"source":"External","name":"queue:max:10s","targetType":"Value","target":"100","asked":true,"value":"150"}]}]}`

// In a pipe, top prints the table once, the worst autoscaler first.
func TestTopInAPipe(t *testing.T) {
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, scaling) })
	want := `AUTOSCALER   REPLICAS  MIN-MAX  METRIC         VALUE    TARGET  OF TARGET                      STATE
shop/broken  1         0-9      orders\x1b[2J  missing  5       -                              metric missing
shop/held    4         1-4      jobs           20       10      200%       █████████████████▶  limit maxReplicas
                                cpu            30       60%     50%        ██████·····▒▒·····  
mail/moving  2→3       1-9      queue:max:10s  150      100     150%       █████████████████▶  
shop/calm    2         1-5      busy           10.5     10      105%       █████████████·····  
`
	code, out, errs := called("top", "-A", "--kubeconfig", file)
	if code != command.ExitOK || out != want {
		t.Errorf("exit code %d: %s\n%s, want\n%s", code, errs, out, want)
	}
	if _, out, _ := called("top", "-A", "--kubeconfig", file, "--filter", "QUEUE", "--no-headers"); strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "mail/moving") {
		t.Errorf("filtered by a metric's name:\n%s", out)
	}
	for _, args := range []string{"top x", "top --interval 1ms", "top -A -n shop"} {
		if code, _, _ := called(append(strings.Fields(args), "--kubeconfig", file)...); code != command.ExitUsage {
			t.Errorf("%s: exit code %d", args, code)
		}
	}
}

func TestTopWithoutAutoscalers(t *testing.T) {
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":[]}`) })
	if code, out, _ := called("top", "--kubeconfig", file); code != command.ExitOK || out != "no HorizontalPodAutoscalers in namespace team\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// A bar's filled cells are the value, to a cell of a twelfth of the target.
func TestBar(t *testing.T) {
	for share, want := range map[float64]string{
		0:    "···········▒▒·····",
		0.5:  "██████·····▒▒·····",
		1:    "████████████▒·····",
		1.45: "█████████████████·",
		1.5:  "█████████████████▶",
		99:   "█████████████████▶",
	} {
		if got := bar(share, 0.1, 0.1); got != want {
			t.Errorf("%v is %s, want %s", share, got, want)
		}
	}
	if got := bar(0, 0.5, 0); got != "······▒▒▒▒▒▒······" {
		t.Errorf("half below is tolerated, and nothing above: %s", got)
	}
}

// Keys filter, scroll and end.
func TestTopByKeys(t *testing.T) {
	var all []inspect.Document
	for i := range 50 {
		all = append(all, &inspect.Autoscaler{Namespace: "shop", Name: fmt.Sprintf("web-%02d", i), MaxReplicas: 5, CurrentReplicas: 1, DesiredReplicas: 1})
	}
	view := topView{rows: topRows(all), header: true, at: time.Now()}
	seen := func() string { return view.draw(60, 10) }
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if view.press(key) {
				t.Fatalf("%q ends it", key)
			}
		}
	}
	if text := seen(); strings.Count(text, "\n") != 9 || !strings.Contains(text, "web-00") || !strings.Contains(text, "50 autoscalers") {
		t.Fatalf("the screen has no 10 lines of the first ones:\n%s", text)
	}
	press(arrowDown, arrowDown)
	if text := seen(); strings.Contains(text, "web-01") || !strings.Contains(text, "web-02") {
		t.Errorf("two lines further:\n%s", text)
	}
	press("/", "x", backspace, "WEB-4", "q", backspace, "1")
	if text := seen(); !strings.Contains(text, "web-41") || strings.Contains(text, "web-40") || !strings.Contains(text, "/WEB-41▏") {
		t.Errorf("filtered while typing:\n%s", text)
	}
	press(enter)
	if text := seen(); !strings.Contains(text, "filter: WEB-41   Esc removes it") {
		t.Errorf("the filter stays:\n%s", text)
	}
	press(escape)
	if text := seen(); !strings.Contains(text, "web-00") {
		t.Errorf("without the filter:\n%s", text)
	}
	press(arrowUp, arrowUp)
	if seen(); view.offset != 0 {
		t.Errorf("above the first line: %d", view.offset)
	}
	for _, key := range []string{"q", "\x03"} {
		if !view.press(key) {
			t.Errorf("%q does not end it", key)
		}
	}
	for line := range strings.SplitSeq(view.draw(20, 5), endLine) {
		if n := len([]rune(strings.TrimSuffix(line, clearLine))); n > 20 {
			t.Errorf("a line has %d columns of 20: %q", n, line)
		}
	}
}
