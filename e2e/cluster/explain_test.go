package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
)

var update = flag.Bool("update", false, "write the golden files of explanations instead of comparing with them")

// TestExplain provokes each cause for which an autoscaler has no value, and lets "sluice explain"
// find it. The control plane is its own: some causes concern the whole cluster, and come last.
func TestExplain(t *testing.T) {
	t.Parallel()
	c := installInto(t, controlplane.New(t, controlplane.DefaultConfig()))
	c.Kubectl(t, "wait", "--for=condition=Available", "--timeout=5m", "apiservice/v1alpha1.inspect.sluice.dev")
	t.Run("causes", func(t *testing.T) {
		for _, one := range causes {
			t.Run(one.name, func(t *testing.T) {
				t.Parallel()
				e := c.explained(t, one.name)
				one.provoke(t, e)
				e.wantCause(t, one.name, one.want)
				if one.mend != nil {
					one.mend(t, e)
				}
			})
		}
		t.Run("arithmetic", func(t *testing.T) {
			t.Parallel()
			reproducesTheArithmetic(t, c.explained(t, "arithmetic"))
		})
	})
	t.Run("cluster", func(t *testing.T) { breaksTheCluster(t, c) })
}

// explained is a namespace with a StatefulSet "web", and the autoscaler that is explained.
type explained struct {
	*cluster
	ns         string
	kubeconfig string // of the user who asks
	hide       []string
}

func (c *cluster) explained(t *testing.T, name string) *explained {
	t.Helper()
	return &explained{cluster: c, ns: c.Namespace(t, name), kubeconfig: c.Kubeconfig}
}

// awaitAutoscaler waits until Sluice knows an autoscaler, and so which metrics it names.
func (e *explained) awaitAutoscaler(t *testing.T, name string) {
	t.Helper()
	e.awaitRead(t, "/apis/inspect.sluice.dev/v1alpha1/namespaces/"+e.ns+"/autoscalers/"+name)
}

// workload applies a StatefulSet and returns a function that has a pod send a line again and again.
func (e *explained) workload(t *testing.T, name string, replicas int) (push func(pod int, line string)) {
	t.Helper()
	e.Apply(t, e.ns, statefulSet(name, replicas))
	pods := e.AwaitPods(t, e.ns, "app="+name, replicas)
	for _, pod := range pods {
		e.awaitSender(t, e.ns, pod.Name)
	}
	return func(pod int, line string) {
		e.repeat(t, addressOf(t, pods[pod]), func() string { return line })
	}
}

func statefulSet(name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  serviceName: %[1]s
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s, tier: back}}
    spec: {containers: [{name: main, image: shop/main:1}]}
`, name, replicas)
}

// hpa is the manifest of an autoscaler of the StatefulSet "web", with one metric a line.
func hpa(name string, metrics ...string) string {
	return fmt.Sprintf(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: %s}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}
  minReplicas: 1
  maxReplicas: 5
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
  metrics:
  - %s
`, name, strings.Join(metrics, "\n  - "))
}

func podsMetric(name, target string) string {
	return fmt.Sprintf(`{type: Pods, pods: {metric: {name: %q}, target: {type: AverageValue, averageValue: %q}}}`, name, target)
}

// externalMetric asks for a name with labels, as in "queue: mail"; empty: none.
func externalMetric(name, labels, target string) string {
	return fmt.Sprintf(`{type: External, external: {metric: {name: %q, selector: {matchLabels: {%s}}}, target: {type: AverageValue, averageValue: %q}}}`,
		name, labels, target)
}

// explanation is the part of a report that tests look at.
type explanation struct {
	Autoscaler struct{ DesiredReplicas, CurrentReplicas int32 }
	Decision   struct{ Replicas *int32 }
	Findings   []struct {
		Cause   string
		Warning bool
		Remedy  []string
	}
}

func (e *explanation) causes() (all []string) {
	for _, f := range e.Findings {
		cause := f.Cause
		if f.Warning {
			cause += "?"
		}
		all = append(all, cause)
	}
	return all
}

// explain runs the command as the user.
func (e *explained) explain(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, fault bytes.Buffer
	cmd := exec.CommandContext(t.Context(), e.sluice.Binary(), append([]string{"explain", "-n", e.ns, "--kubeconfig", e.kubeconfig}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &fault
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), fault.String()
}

func (e *explained) report(t *testing.T) (code int, r explanation, err error) {
	t.Helper()
	code, out, fault := e.explain(t, "hpa/web", "-o", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return code, r, fmt.Errorf("exit code %d: %s%s (%w)", code, out, fault, err)
	}
	return code, r, nil
}

// applyRemedies runs the commands of the findings that change something in the cluster, as printed.
func (e *explained) applyRemedies(t *testing.T) {
	t.Helper()
	_, r, err := e.report(t)
	must(t, err)
	applied := map[string]bool{}
	for _, f := range r.Findings {
		for _, line := range f.Remedy {
			changes := strings.HasPrefix(line, "kubectl patch ") || strings.HasPrefix(line, "kubectl create ") || strings.HasPrefix(line, "echo ")
			if changes && !applied[line] {
				applied[line] = true
				e.Shell(t, line)
			}
		}
	}
	if len(applied) == 0 {
		t.Errorf("no finding has a command: %+v", r.Findings)
	}
}

// list runs "sluice list".
func (e *explained) list(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), e.sluice.Binary(), append([]string{"list", "-n", e.ns, "--kubeconfig", e.kubeconfig}, args...)...)
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// wantCause waits until the findings are the wanted ones ("?" marks a note), and then compares the
// text with the golden file.
func (e *explained) wantCause(t *testing.T, name string, want []string) {
	t.Helper()
	var text string
	within(t, func() error {
		code, r, err := e.report(t)
		if err != nil {
			return err
		}
		_, text, _ = e.explain(t, "hpa/web")
		if got := r.causes(); !slices.Equal(got, want) {
			return fmt.Errorf("findings %v, want %v; the text is\n%s", got, want, text)
		}
		broken := slices.ContainsFunc(want, func(cause string) bool { return !strings.HasSuffix(cause, "?") })
		if wantCode := map[bool]int{true: 1}[broken]; code != wantCode {
			return fmt.Errorf("exit code %d, want %d", code, wantCode)
		}
		return e.sameText(name, text)
	})
}

// sameText compares a text with a golden file, without that which differs from run to run.
func (e *explained) sameText(name, text string) error {
	text = e.stable(text)
	path := filepath.Join("testdata", "explain", name+".txt")
	if *update {
		return os.WriteFile(path, []byte(text), 0o644)
	}
	want, err := os.ReadFile(path)
	if err == nil && text != string(want) {
		err = fmt.Errorf("%s:\n%s\nwant:\n%s", path, text, want)
	}
	return err
}

var changing = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\b\d+[smh]\b( ago)`), "AGE$1"},
	{regexp.MustCompile(`started AGE ago and has not pushed yet|has not pushed it, or its value has expired`), "HAS NOT PUSHED"},
	{regexp.MustCompile(`\b(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?`), "ADDRESS"},
	{regexp.MustCompile(`\b((?:sluice|keda)/[a-z-]+):\d+`), "$1:PORT"},
	{regexp.MustCompile(`more than one HPA \(e\.g\. (\[[^\]]*\])\)`), "multiple HPAs: $1"}, // since Kubernetes 1.37
	{regexp.MustCompile(`\[(NAMESPACE/(?:all|web-too)) (NAMESPACE/web)\]`), "[$2 $1]"},     // in the order of a map
	{regexp.MustCompile(`request-timestamp=\S+|20\d\d-\d\d-\d\dT[\d:.]+Z`), "TIME"},
}

func (e *explained) stable(text string) string {
	text = strings.ReplaceAll(text, e.ns, "NAMESPACE")
	for _, other := range e.hide {
		text = strings.ReplaceAll(text, other, "OTHER")
	}
	for _, one := range changing {
		text = one.is.ReplaceAllString(text, one.as)
	}
	return text
}
