package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	folder  = "../../charts/sluice"
	release = "sluice"
)

// pinned is the path of the Helm that tools/go.mod pins, built by its first run.
var pinned = sync.OnceValues(func() (string, error) {
	if text, err := exec.Command("go", "tool", "helm", "version").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go tool helm: %w\n%s", err, text)
	}
	path, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(path)), err
})

// helm runs the pinned Helm, away from what the user of this machine has configured.
func helm(t *testing.T, kubeconfig string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, err := pinned()
	must(t, err)
	home := t.TempDir()
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_NAMESPACE="+release,
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

// render is what the chart makes of a file of values and of what is set besides, without a cluster.
func render(t *testing.T, values string, set ...string) (string, error) {
	t.Helper()
	args := []string{"template", release, folder}
	if values != "" {
		args = append(args, "--values", values)
	}
	for _, one := range set {
		args = append(args, "--set", one)
	}
	stdout, stderr, err := helm(t, os.DevNull, args...)
	if err != nil {
		return stderr, err
	}
	return stdout, nil
}

// rendered remembers what was rendered: the tests ask the same of one text.
var rendered = map[string]string{}

func mustRender(t *testing.T, values string, set ...string) string {
	t.Helper()
	asked := values + " " + strings.Join(set, ",")
	if text, ok := rendered[asked]; ok {
		return text
	}
	text, err := render(t, values, set...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	rendered[asked] = text
	return text
}

// valuesFiles are the files of values that everything is tried with, by their names without
// "-values.yaml".
func valuesFiles(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(folder + "/ci/*-values.yaml")
	if err != nil || len(paths) < 5 {
		t.Fatalf("found %d files of values under ci/ (%v): want several", len(paths), err)
	}
	files := map[string]string{}
	for _, path := range paths {
		files[strings.TrimSuffix(filepath.Base(path), "-values.yaml")] = path
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
