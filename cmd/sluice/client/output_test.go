package client

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

// metricsAndGroups answers as a server with three metrics and two groups in the namespace team.
func metricsAndGroups(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/metrics"):
		fmt.Fprint(w, `{"items":[
			{"name":"busy","namespace":"team","kind":"gauge","series":10,"resource":"pods"},
			{"name":"jobs","namespace":"team","kind":"gauge","series":9},
			{"name":"done","namespace":"team","kind":"counter","series":2000000}]}`)
	case strings.HasSuffix(path, "/groups"):
		fmt.Fprint(w, `{"items":[
			{"namespace":"team","job":"batch","labels":{"instance":"a"}},
			{"namespace":"team","job":"batch","labels":{"instance":"b"}}]}`)
	case strings.HasSuffix(path, "/objects"):
		fmt.Fprint(w, `{"items":[{"namespace":"team","resource":"pods","name":"web-1"},{"namespace":"team","resource":"deployments.apps","name":"web"}]}`)
	case strings.HasSuffix(path, "/autoscalers"):
		fmt.Fprint(w, `{"items":[{"namespace":"team","name":"web"}]}`)
	case path == namespacesAPI:
		fmt.Fprint(w, `{"items":[{"metadata":{"name":"shop"}},{"metadata":{"name":"team"}}]}`)
	case strings.HasPrefix(path, ExternalAPI):
		fmt.Fprint(w, `{"kind":"ExternalMetricValueList","items":[
			{"metricName":"jobs","metricLabels":{"queue":"a"},"timestamp":"2026-05-01T12:00:00Z","value":"3"},
			{"metricName":"jobs","metricLabels":{"queue":"b"},"timestamp":"2026-05-01T12:00:00Z","value":"900m"},
			{"metricName":"jobs","metricLabels":{"queue":"c"},"timestamp":"2026-05-01T12:00:00Z","value":"20"}]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// The formats of kubectl, of list and get.
func TestFormatsAreKubectls(t *testing.T) {
	file := answering(t, metricsAndGroups)
	for _, test := range []struct{ args, want string }{
		{"list -o name", "metric/busy\nmetric/jobs\nmetric/done\n"},
		{"list hpas -o name", "hpa/web\n"},
		{"list -o jsonpath={.items[*].series}", "10 9 2000000\n"},
		{"list -o jsonpath={.items[?(@.series>9)].name}", "busy done\n"},
		{"list -o jsonpath={.items[*].nothing}", "\n"},
		{"list -o name --sort-by .series", "metric/jobs\nmetric/busy\nmetric/done\n"},
		{"list -o name --sort-by {.name}", "metric/busy\nmetric/done\nmetric/jobs\n"},
		{"list -o name --sort-by resource", "metric/jobs\nmetric/done\nmetric/busy\n"},
		{"list metrics jobs busy -o name", "metric/busy\nmetric/jobs\n"},
		{"list metric jobs -o jsonpath={.series}", "9\n"},
		{"list metrics jobs -o yaml", "name: jobs\nnamespace: team\nkind: gauge\nseries: 9\n"},
		{"list groups -l instance=b -o jsonpath={.items[*].labels.instance}", "b\n"},
		{"list groups -l instance!=b --no-headers -o jsonpath={.items[*].labels.instance}", "a\n"},
		{"get external jobs -o name", "metric/jobs\nmetric/jobs\nmetric/jobs\n"},
		{"get external jobs -o jsonpath={.items[*].value}", "3 900m 20\n"},
		{"get external jobs -o jsonpath={.items[*].value} --sort-by .value", "900m 3 20\n"},
		{"get external jobs -o jsonpath={.items[0].value} --sort-by value", "900m\n"},
	} {
		args := append(strings.Fields(test.args), "--kubeconfig", file)
		if code, out, errs := called(args...); code != command.ExitOK || out != test.want {
			t.Errorf("%s: exit code %d, %q %s, want %q", test.args, code, out, errs, test.want)
		}
	}
	for _, args := range []string{"list", "get external jobs", "get external jobs -o wide"} {
		_, whole, _ := called(append(strings.Fields(args), "--kubeconfig", file)...)
		_, headless, _ := called(append(strings.Fields(args), "--kubeconfig", file, "--no-headers")...)
		_, rows, _ := strings.Cut(whole, "\n") // columns without headers are narrower
		if got, want := strings.Fields(headless), strings.Fields(rows); !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("%s: %q without headers, with %q", args, headless, whole)
		}
	}
}

func TestFormatsThatAreWrong(t *testing.T) {
	file := answering(t, metricsAndGroups)
	for _, test := range []struct {
		args, want string
		code       int
	}{
		{"list -o jsn", `must be table, wide, json, yaml, name or jsonpath=TEMPLATE; did you mean "json"?`, command.ExitUsage},
		{"list -o jsonpath={.items[", "is no JSONPath template, as in jsonpath={.items[*].name}: ", command.ExitUsage},
		{"list --sort-by {.a", "must be the JSONPath of a value of an item, as in .series or {.name}: ", command.ExitUsage},
		{"list --sort-by .serie", "--sort-by .serie: no item has a value there", command.ExitFailed},
		{"list -l a=b", "--selector is set; must be with: list groups, since no metrics have labels", command.ExitUsage},
		{"list groups -l a=b=c", `--selector is "a=b=c"; must be a selector, as in instance=batch-1: `, command.ExitUsage},
		{"list metrics job busy", `metric "job" is not listed in namespace team; did you mean "jobs"?`, command.ExitFailed},
		{"list --output-watch-events", "--output-watch-events is set; must be with --watch, and without -o name", command.ExitUsage},
		{"get external jobs -w -o yaml", "--watch is set with --output or --sort-by; must be table, wide or json, and unsorted", command.ExitUsage},
		{"explain jobs -o table", "must be text, json, yaml or jsonpath=TEMPLATE", command.ExitUsage},
	} {
		args := append(strings.Fields(test.args), "--kubeconfig", file)
		if code, _, errs := called(args...); code != test.code || !strings.Contains(errs, test.want) {
			t.Errorf("%s: exit code %d, %s, want %d, %s", test.args, code, errs, test.code, test.want)
		}
	}
}

// A shell completes what the server has; without a server, nothing that is not known.
func TestCompletion(t *testing.T) {
	file := answering(t, metricsAndGroups)
	for args, want := range map[string]string{
		"list ":               strings.Join(listWords, " "),
		"list metrics ":       "busy done jobs",
		"list hpas ":          "web",
		"get external ":       "jobs done",
		"get pods/web-1 ":     "busy",
		"get pods/":           "pods/web-1",
		"get deploy/":         "deploy/web",
		"explain ":            "hpa/web busy done jobs",
		"list -n ":            "shop team",
		"get -n ":             "shop team",
		"list -o j":           "table wide json yaml name jsonpath=",
		"explain -o ":         "text json yaml jsonpath=",
		"list metrics -n no ": "busy done jobs", // the server of this test has one namespace
	} {
		words := strings.Split(args, " ")
		ask := append([]string{"__complete", words[0], "--kubeconfig", file}, words[1:]...)
		_, out, _ := called(ask...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if got := strings.Join(lines[:len(lines)-1], " "); got != want {
			t.Errorf("%q is completed by %q, want %q", args, got, want)
		}
	}
	if _, out, _ := called("__complete", "explain", "--kubeconfig", "/nowhere", ""); strings.TrimSpace(out) != ":4" {
		t.Errorf("without a server: %q", out)
	}
}

// A server's words move no cursor: errors are escaped, too, and the answer of a push that waits.
func TestServersWordsAreVisible(t *testing.T) {
	const evil = `q=\u001b[2J`
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","code":404,"message":"`+evil+`"}`)
	})
	status := http.StatusBadRequest
	pushes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		if fmt.Fprint(w, `{"pending":1,"message":"`+evil+`"`); status != http.StatusAccepted {
			fmt.Fprint(w, `,"error":{"reason":"limit","message":"`+evil+`"}`)
		}
		fmt.Fprint(w, "}")
	}))
	defer pushes.Close()
	push := []string{"push", "--gauge", "a", "1", "--http", pushes.URL}
	check := func(args []string) {
		t.Helper()
		if _, out, errs := called(args...); !strings.Contains(out+errs, `q=\x1b[2J`) || strings.Contains(out+errs, "\x1b") {
			t.Errorf("%v: %q %q, want it escaped", args, out, errs)
		}
	}
	check([]string{"get", "external", "m", "--kubeconfig", file})
	check([]string{"list", "--kubeconfig", file})
	check(push)
	status = http.StatusAccepted
	check(push)
	ctx, cancel := context.WithCancel(context.Background())
	errs := lastWrite{then: cancel}
	must(t, watchJSON(ctx, nil, &errs, time.Hour, func(context.Context) ([]byte, error) {
		return nil, &refusal{code: http.StatusNotFound, message: "q=\x1b[2J"}
	}))
	if !strings.Contains(errs.text, `q=\x1b[2J`) {
		t.Errorf("%q, want it escaped", errs.text)
	}
}

// lastWrite keeps what was written last, and then does something.
type lastWrite struct {
	text string
	then func()
}

func (w *lastWrite) Write(p []byte) (int, error) {
	w.text = string(p)
	w.then()
	return len(p), nil
}

// Of names that are not listed, it is not said that there is nothing.
func TestAnUnlistedNameIsNoEmptyList(t *testing.T) {
	file := answering(t, metricsAndGroups)
	code, out, errs := called("list", "metrics", "nosuch", "--kubeconfig", file)
	if code != command.ExitFailed || out != "" || !strings.Contains(errs, `metric "nosuch" is not listed`) {
		t.Errorf("exit code %d, %q, %q: want the error alone", code, out, errs)
	}
}
