package main

import (
	"os"
	"strings"
	"testing"
)

// A kubeconfig that says the same is left alone: a start on a full disk needs no room for it.
// Another one takes its place whole.
func TestKubeconfigIsWrittenWhereItDiffers(t *testing.T) {
	dir := t.TempDir()
	stat := func(address string) os.FileInfo {
		t.Helper()
		path, err := writeKubeconfig(dir, address, "")
		must(t, err)
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "https://"+address) {
			t.Fatalf("%s, %v", text, err)
		}
		info, err := os.Stat(path)
		must(t, err)
		return info
	}
	first := stat("127.0.0.1:6443")
	if again := stat("127.0.0.1:6443"); !os.SameFile(first, again) || again.ModTime() != first.ModTime() {
		t.Error("the same was written again")
	}
	if other := stat("127.0.0.1:7443"); os.SameFile(first, other) || other.Mode().Perm() != 0o600 {
		t.Errorf("the file was written over, or is for others to read: %v", other.Mode())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}
