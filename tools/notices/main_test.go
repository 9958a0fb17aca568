package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNoticesNameEveryModule(t *testing.T) {
	out := filepath.Join(t.TempDir(), "notices")
	if err := run("../..", out, []string{"linux/amd64", "darwin/arm64"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nGo\n", "\ngithub.com/dgraph-io/badger/v4 v", "\nk8s.io/client-go v", "\nuPlot\n", "Leon Sorokin", "Apache License", "The Go Authors"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the notices", want)
		}
	}
	if strings.Contains(string(text), "sluice-metrics/sluice") {
		t.Error("the notices name the repository itself")
	}
}

func TestModuleWithoutLicence(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "license.go"), []byte("package license"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := notices(map[string]map[string]bool{"example.org/bare v1": {folder: true}})
	if err == nil || !strings.Contains(err.Error(), "example.org/bare v1 has no licence text") {
		t.Errorf("error %v: want that the module has no licence text", err)
	}
}
