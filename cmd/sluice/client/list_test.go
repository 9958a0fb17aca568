package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
)

// answering is a server of the API that answers each path as a test says, and a kubeconfig for it.
func answering(t *testing.T, answer http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: c, namespace: team}}
- {name: b, context: {cluster: c}}
clusters:
- {name: c, cluster: {server: %q}}
`, server.URL)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestListUsesTheContextsNamespace(t *testing.T) {
	asked := ""
	file := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, inspectAPI) { // an empty list asks for its namespace, too
			asked = r.URL.Path
		}
		fmt.Fprint(w, `{"items":[]}`)
	})
	for args, want := range map[string]string{
		"":            "/namespaces/team/metrics",
		"-n shop":     "/namespaces/shop/metrics",
		"-A":          "/metrics",
		"--context b": "/metrics",
	} {
		if code, _, errs := called(append([]string{"list", "metrics", "--kubeconfig", file}, strings.Fields(args)...)...); code != command.ExitOK {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
		if asked != inspectAPI+want {
			t.Errorf("%s asks %s, want %s", args, asked, want)
		}
	}
}

func TestListFollowsPages(t *testing.T) {
	file := answering(t, func(w http.ResponseWriter, r *http.Request) {
		n, next := len(r.URL.Query().Get("continue")), ""
		if n < 3 {
			next = strings.Repeat("c", n+1)
		}
		fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[{"name":"m%d","namespace":"team"}]}`, next, n)
	})
	if code, out, errs := called("list", "--kubeconfig", file); code != command.ExitOK || strings.Count(out, "\n") != 5 || !commandtest.ContainsAll(out, []string{"m0", "m3"}) {
		t.Errorf("exit code %d: %s\n%s", code, errs, out)
	}
}

// A fault in the list is the exit code 1, and the first one is named.
func TestListOfSomethingWrongFails(t *testing.T) {
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"name":"ok","namespace":"team","targetKind":"Deployment","targetName":"ok","metrics":[{"name":"a","target":"5","value":"4"}]},
			{"name":"web","namespace":"team","targetKind":"Deployment","targetName":"web","metrics":[{"name":"jobs","target":"5","missing":true,"why":"never pushed"}]}]}`)
	})
	code, out, errs := called("list", "hpas", "--kubeconfig", file, "-o", "wide")
	if code != command.ExitFailed || !strings.Contains(errs, "1 of 2 autoscalers have a fault; the first: team/web: metric jobs is missing: never pushed; why, and what mends it: sluice explain -n team hpa/web") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if !commandtest.ContainsAll(out, []string{"deployment/ok", "a 4/5", "jobs missing/5", "WHY"}) {
		t.Errorf("%s", out)
	}
}

// A list of a namespace that doesn't exist fails, and names the one that may be meant. An empty one
// doesn't, nor one that the user may not see.
func TestListOfANamespaceThatDoesNotExistFails(t *testing.T) {
	seen := http.StatusNotFound
	file := answering(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/namespaces":
			fmt.Fprint(w, `{"items":[{"metadata":{"name":"default"}},{"metadata":{"name":"shop"}}]}`)
		case "/api/v1/namespaces/shpo":
			w.WriteHeader(seen)
			fmt.Fprint(w, `{"kind":"Status","message":"says the API server","details":{"name":"shpo","kind":"namespaces"}}`)
		default:
			fmt.Fprint(w, `{"items":[]}`)
		}
	})
	for _, output := range []string{"table", "json", "yaml"} {
		code, out, errs := called("list", "refused", "-n", "shpo", "--kubeconfig", file, "-o", output)
		if code != command.ExitFailed || out != "" || !strings.Contains(errs, `namespace "shpo" does not exist; did you mean "shop"`) {
			t.Errorf("%s: exit code %d, %q, %q", output, code, out, errs)
		}
	}
	for _, seen = range []int{http.StatusOK, http.StatusForbidden} {
		if code, out, errs := called("list", "refused", "-n", "shpo", "--kubeconfig", file); code != command.ExitOK || !strings.Contains(out, "no rejections in namespace shpo") {
			t.Errorf("seen with %d: exit code %d, %q, %q", seen, code, out, errs)
		}
	}
}

func TestListAsYAML(t *testing.T) {
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"metadata":{"name":"a"},"name":"12","count":7,"ok":true,"example":"x: |\n# \u0001 \u003cb\u003e","labels":{"b":"true","a":""},"none":[]}]}`)
	})
	want := `kind: RejectionList
apiVersion: inspect.sluice.dev/v1alpha1
metadata: {}
items:
  - metadata:
      name: a
    name: "12"
    count: 7
    ok: true
    example: "x: |\n# \x01 <b>"
    labels:
      b: "true"
      a: ""
    none: []
`
	if code, out, errs := called("list", "refused", "--kubeconfig", file, "-o", "yaml"); code != command.ExitOK || out != want {
		t.Errorf("exit code %d: %s\n%s, want\n%s", code, errs, out, want)
	}
}

// A line apart from the rows says what each column counts, and since when.
func TestListSaysWhatIsCounted(t *testing.T) {
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"of":{"resource":"pods","name":"web-1"},"reason":"limit","name":"web-1","rejected":3}]}`)
	})
	for list, parts := range map[string][2]string{
		"limits":  {"REJECTED SERIES", "since it started or since"},
		"refused": {"SAMPLES", "has rejected"},
		"senders": {"REJECTED SAMPLES", "started"},
	} {
		if code, out, errs := called("list", list, "--kubeconfig", file); code != command.ExitOK || !strings.Contains(out, parts[0]) || !strings.Contains(errs, parts[1]) {
			t.Errorf("%s: exit code %d\n%s\n%s", list, code, out, errs)
		}
		if _, _, errs := called("list", list, "--kubeconfig", file, "-o", "json"); errs != "" {
			t.Errorf("%s in JSON: %s", list, errs)
		}
	}
}

// Agents belong to no namespace: that of the context, or of a flag, chooses none of them.
func TestListAgents(t *testing.T) {
	asked := ""
	file := answering(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		fmt.Fprint(w, `{"items":[{"node":"node-1","state":"cut off","version":"1.2","series":3,"samples":70,"lag":0.1041,"lastFrame":"2026-01-01T00:00:00Z","rejected":7,"reason":"limit","message":"full"},
			{"node":"node-2","state":"connected","since":"2026-01-01T00:00:00Z"}]}`)
	})
	for _, args := range [][]string{{"-n", "shop"}, {"-A"}, nil} {
		code, out, errs := called(append([]string{"list", "agents", "--kubeconfig", file, "-o", "wide"}, args...)...)
		if code != command.ExitFailed || !strings.Contains(errs, "1 of 2 agents have a fault; the first: node-1: the agent is cut off") || asked != inspectAPI+"/agents" {
			t.Errorf("%v: exit code %d, asked for %s: %s", args, code, asked, errs)
		}
		rows := strings.Split(out, "\n")
		for i, want := range []string{
			"NODE STATE SINCE SERIES SAMPLES LAG REJECTED SAMPLES LAST REJECTION VERSION LAST FRAME MESSAGE",
			"node-1 cut off - 3 70 104ms 7 limit 1.2", "node-2 connected",
		} {
			if got := strings.Join(strings.Fields(rows[i]), " "); !strings.HasPrefix(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

func TestListSaysWhichRightIsMissing(t *testing.T) {
	user := "jane"
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","message":"metrics.inspect.sluice.dev is forbidden: User \"%s\" cannot list resource"}`, user)
	})
	code, _, errs := called("list", "--kubeconfig", file)
	if code != command.ExitFailed || !strings.Contains(errs, "kubectl create rolebinding sluice-inspect-reader -n team --clusterrole=sluice-inspect-reader --user=jane") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	user = "system:serviceaccount:ops:robot"
	if _, _, errs = called("list", "-A", "--kubeconfig", file); !strings.Contains(errs, "clusterrolebinding sluice-inspect-reader --clusterrole=sluice-inspect-reader --serviceaccount=ops:robot") ||
		!strings.Contains(errs, "sluice list metrics -n NAMESPACE") {
		t.Errorf("all namespaces: %s", errs)
	}
}

// Sluice itself says what it lacks; a registration of the API doesn't help.
func TestListSaysThatPoliciesAreUnknown(t *testing.T) {
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"kind":"Status","message":"it may not read the policies","details":{"group":"inspect.sluice.dev","kind":"policies"}}`)
	})
	if code, _, errs := called("list", "policies", "--kubeconfig", file); code != command.ExitFailed || !strings.Contains(errs, "may not read the policies") || strings.Contains(errs, "apiservice") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestRejectionsAreListedNewestFirst(t *testing.T) {
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"metric":"old","reason":"limit","last":"2026-01-01T00:00:00Z"},{"metric":"new","reason":"limit","last":"2026-01-02T00:00:00Z"}]}`)
	})
	_, out, _ := called("list", "refused", "--kubeconfig", file)
	if strings.Index(out, "new ") > strings.Index(out, "old ") {
		t.Errorf("%s, want the newest first", out)
	}
}

func TestListFaults(t *testing.T) {
	code, _, errs := called("list", "metricss", "x", "-n", "a", "-A", "--interval", "1s", "-o", "xml")
	if code != command.ExitUsage {
		t.Errorf("exit code %d, want %d", code, command.ExitUsage)
	}
	commandtest.WantLines(t, errs, `did you mean "metrics"`, "--all-namespaces and --namespace", "--interval", "-o is")
}

// A watched list prints its rows once, then a row for each change, as kubectl's get --watch does: an age alone is none,
// and of what is gone the last row comes again.
func TestAWatchedListPrintsChanges(t *testing.T) {
	for name, c := range map[string]struct {
		options listOptions
		want    string
	}{
		"table": {listOptions{output: command.NewOutput("table")}, `NAME        OF         KIND      OBJECTS   SERIES   LAST SAMPLE   READ BY
a           external   counter   -         1        0s            -
long_name   external   gauge     -         1        0s            -
long_name   external   gauge     -         2        2s            -
long_name   external   gauge     -         2        8s            -
`},
		"wide, without headers": {listOptions{output: command.NewOutput("wide", "table"), noHeaders: true}, `a           external   counter   -   1   0s   -   -   -   rate,count,total
long_name   external   gauge     -   1   0s   -   -   -   last,mean,min,max
a           external   counter   -   1   2s   -   7   -   rate,count,total
long_name   external   gauge     -   2   2s   -   -   -   last,mean,min,max
`},
		"events": {listOptions{output: command.NewOutput("table"), noHeaders: true, events: true}, `ADDED   a           external   counter   -   1   0s   -
ADDED   long_name   external   gauge     -   1   0s   -
MODIFIED   long_name   external   gauge     -   2   2s   -
DELETED    long_name   external   gauge     -   2   8s   -
`},
		"name": {listOptions{output: command.NewOutput("name")}, "metric/a\nmetric/long_name\nmetric/long_name\nmetric/long_name\n"},
		"json": {listOptions{output: command.NewOutput("json"), events: true}, `"ADDED" "a" 1, "ADDED" "long_name" 1, "MODIFIED" "a" 1, "MODIFIED" "long_name" 2, "MODIFIED" "a" 1, "DELETED" "long_name" 2, `},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := watchedMetrics(t, &c.options); !strings.HasPrefix(got, c.want) {
					t.Errorf("%s, want\n%s", got, c.want)
				}
			})
		})
	}
}

// watchedMetrics is what a watch of a list prints that is read three times; of JSON, some fields.
func watchedMetrics(t *testing.T, o *listOptions) string {
	t.Helper()
	var out, errs strings.Builder
	resource, _ := inspect.ResourceNamed("metrics")
	o.namespace = "shop"
	w := listWatch{listOptions: o, resource: resource, out: &out, errs: &errs, rows: alignedRows{out: &out}}
	sampled := time.Now()
	read := func(fault error, all ...*inspect.Metric) {
		t.Helper()
		var now listed
		for _, one := range all {
			one.LastSample = sampled
			raw, err := json.Marshal(one)
			must(t, err)
			now.documents, now.raw = append(now.documents, one), append(now.raw, raw)
		}
		must(t, w.show(time.Now(), now, fault))
		time.Sleep(2 * time.Second)
	}
	read(nil, &inspect.Metric{Name: "a", Kind: "counter", Series: 1}, &inspect.Metric{Name: "long_name", Kind: "gauge", Series: 1})
	read(nil, &inspect.Metric{Name: "a", Kind: "counter", Series: 1, Value: "7"}, &inspect.Metric{Name: "long_name", Kind: "gauge", Series: 2})
	read(errors.New("away"))
	read(errors.New("away"))
	read(nil, &inspect.Metric{Name: "a", Kind: "counter", Series: 1})
	if got := errs.String(); got != "error: away\n" {
		t.Errorf("two equal faults are told by %q", got)
	}
	if o.output.Word != "json" {
		return out.String()
	}
	var text strings.Builder
	for all := json.NewDecoder(strings.NewReader(out.String())); all.More(); {
		var event struct {
			Type   string
			Object inspect.Metric
		}
		must(t, all.Decode(&event))
		fmt.Fprintf(&text, "%q %q %d, ", event.Type, event.Object.Name, event.Object.Series)
	}
	return text.String()
}

func TestTheDefaultIsKubectlsKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	o := apiOptions{dataDir: t.TempDir()}
	if _, err := o.load(); err != nil && !strings.Contains(err.Error(), ".kube") {
		t.Errorf("%v, want kubectl's own kubeconfig", err)
	}
}

// A pusher's long name doesn't push the other columns of all rows out of sight; -o wide has it whole.
func TestALongNameLeavesATableNarrow(t *testing.T) {
	long := "begin" + strings.Repeat("x", 400) + "\u202e\x1b[31mend"
	resource, _ := inspect.ResourceNamed("metrics")
	all := []inspect.Document{&inspect.Metric{Namespace: "shop", Name: long, Kind: "gauge", Series: 1}, &inspect.Metric{Namespace: "shop", Name: "a", Kind: "gauge", Series: 1}}
	for output, want := range map[string]string{"table": "31mend", "wide": strings.Repeat("x", 400)} {
		var out strings.Builder
		must(t, (&listOptions{output: command.NewOutput(output), namespace: "shop"}).print(&out, resource, all, time.Now()))
		lines := strings.Split(out.String(), "\n")
		if narrow := utf8.RuneCountInString(lines[0]) < 160; narrow != (output == "table") || strings.ContainsAny(out.String(), "\x1b\u202e") || !strings.Contains(lines[1], "beginx") || !strings.Contains(lines[1], want) {
			t.Errorf("%s, with %q:\n%q", output, want, out.String())
		}
	}
}

func TestAWideListOfLimitsNamesTheHolders(t *testing.T) {
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"of":{"resource":"pods","name":"web-1"},"metrics":4,"series":85,"maxMetrics":4,"maxSeries":100,"rejected":3,"wantedMetrics":9,"wantedSeries":90,"holders":[{"metric":"hits","series":80,"autoscaler":true},{"metric":"mails","series":3}]}]}`)
	})
	if _, out, errs := called("list", "limits", "--kubeconfig", file, "-o", "wide"); !commandtest.ContainsAll(out, []string{"HELD BY", "hits 80 (autoscaler), mails 3 and 2 more", "WANTED", "9 metrics\n"}) {
		t.Errorf("limits: %s\n%s", out, errs)
	}
}

// Users may name the list as kubectl names the kinds.
func TestNamesOfTheListOfPolicies(t *testing.T) {
	for _, name := range []string{"policies", "policy", "externalmetricpolicies", "externalmetricpolicy", "emp", "cemp", "clusterexternalmetricpolicies"} {
		if resource, err := listNamed([]string{name}); err != nil || resource.Name != "policies" {
			t.Errorf("%s: %s %v", name, resource.Name, err)
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The kind that -o name prints is the singular of the word that users know, and a list takes it, too.
func TestNamesOfEveryList(t *testing.T) {
	want := map[string]string{
		"hpas": "hpa", "metrics": "metric", "objects": "object", "senders": "sender", "refused": "refused", "groups": "group",
		"limits": "limit", "rules": "rule", "policies": "policy", "agents": "agent", "targets": "target",
	}
	file := answering(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":[{}]}`) })
	for _, list := range listWords {
		_, out, errs := called("list", list, "-A", "-o", "name", "--kubeconfig", file)
		if word, _, _ := strings.Cut(out, "/"); word != want[list] {
			t.Errorf("list %s: %q (%s), want %s/…", list, out, errs, want[list])
		}
		plural, err := listNamed([]string{list})
		must(t, err)
		if singular, err := listNamed([]string{want[list]}); err != nil || singular.Name != plural.Name {
			t.Errorf("list %s: %s (%v), want that it is list %s", want[list], singular.Name, err, list)
		}
	}
}
