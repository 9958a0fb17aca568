package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/store/folder"
)

// TestEmptyMarkerBesideOurDatabase: a power cut may leave the marker and other files empty. The
// database is restored all the same, and the marker is written again.
func TestEmptyMarkerBesideOurDatabase(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"marker": func(*testing.T, string) {},
		"all small files": func(t *testing.T, dir string) {
			for _, empty := range []string{folder.LockName, "kubeconfig", "ca.crt", "tls.crt", "tls.key", "kubeconfig.new"} {
				if err := os.WriteFile(filepath.Join(dir, empty), nil, 0o640); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, before := makeDatabase(t)
			marker := filepath.Join(dir, folder.MarkerName)
			truncate(t, marker, 0)
			spoil(t, dir)
			if err := CheckFolder(dir); err != nil {
				t.Fatalf("CheckFolder: %v", err)
			}
			mustRestore(t, dir, before)
			if text, err := os.ReadFile(marker); err != nil || !strings.HasPrefix(string(text), folder.MarkerText) {
				t.Errorf("the marker says %q, %v", text, err)
			}
		})
	}
}

// TestInterruptedFirstStart: a first start that a power cut or a full disk interrupted does not
// stop the next one.
func TestInterruptedFirstStart(t *testing.T) {
	for name, files := range map[string][]string{
		"before the marker":      {folder.MarkerName + ".new"},
		"full disk":              {folder.LockName},
		"before the database":    {folder.MarkerName, folder.LockName},
		"before its manifest":    {folder.MarkerName, folder.LockName, folder.DatabaseName + "/LOCK"},
		"manifest without bytes": {folder.MarkerName, folder.LockName, folder.DatabaseName + "/" + badger.ManifestFilename, "tls.key", "ca.crt", "kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range files {
				mkdir(t, filepath.Dir(filepath.Join(dir, file)))
				touch(t, filepath.Join(dir, file))
			}
			if err := CheckFolder(dir); err != nil {
				t.Fatalf("CheckFolder: %v", err)
			}
			mustClose(t, mustOpen(t, dir, newModel(0)))
		})
	}
}

// TestEmptyMarkerIsNoLicence: an empty file of the marker's name doesn't make foreign files ours.
func TestEmptyMarkerIsNoLicence(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, dir string){
		"a file": func(t *testing.T, dir string) { touch(t, filepath.Join(dir, "thesis.tex")) },
		"a database": func(t *testing.T, dir string) {
			db, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, folder.DatabaseName)).WithLogger(nil))
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			touch(t, filepath.Join(dir, folder.MarkerName))
			do(t, dir)
			before := tree(t, dir)
			_, err := Open(t.Context(), testConfig(dir), Parts{Table: newModel(0), Logger: quiet()})
			if !errors.Is(err, folder.ErrForeign) || !strings.Contains(err.Error(), "is empty") {
				t.Errorf("Open: %v", err)
			}
			if tree(t, dir) != before {
				t.Error("the directory was touched")
			}
		})
	}
}
