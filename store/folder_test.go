package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
)

// tree is all files below a folder with their content, or nothing where there is no folder.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&all, path, e.Type())
		if e.Type().IsRegular() {
			content, err := os.ReadFile(path)
			all.Write(content)
			return err
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all.String()
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(path, 0o750))
}

// TestRefusedDirectory: a foreign or unreadable folder is rejected in one line that names it and
// says why, and nothing in it is touched.
func TestRefusedDirectory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir string)
		is   error
		says string
	}{
		{"foreign files", func(t *testing.T, dir string) { mkdir(t, dir); appendTo(t, filepath.Join(dir, "letters.txt"), "dear") },
			folder.ErrForeign, "letters.txt"},
		{"foreign folder", func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "etc")) }, folder.ErrForeign, "etc"},
		{"foreign database", makeBadger, folder.ErrForeign, "holds"},
		{"foreign file beside an empty marker", func(t *testing.T, dir string) {
			touchAll(folder.MarkerName, "thesis.tex")(t, dir)
		}, folder.ErrForeign, "is empty"},
		{"foreign database beside an empty marker", func(t *testing.T, dir string) {
			touchAll(folder.MarkerName)(t, dir)
			makeBadger(t, filepath.Join(dir, folder.DatabaseName))
		}, folder.ErrForeign, "is empty"},
		{"foreign marker", func(t *testing.T, dir string) {
			mkdir(t, dir)
			appendTo(t, filepath.Join(dir, folder.MarkerName), "to Bremen")
		},
			folder.ErrForeign, folder.MarkerName},
		{"a file in its place", func(t *testing.T, dir string) { touch(t, dir) }, nil, "cannot create the data folder"},
		{"below a file", func(t *testing.T, dir string) { touch(t, filepath.Dir(dir)) }, nil, "not a directory"},
		{"future format", func(t *testing.T, dir string) {
			made, _ := makeDatabase(t)
			must(t, os.Rename(made, dir))
			appendMarker(t, dir, strconv.Itoa(format.Version+1))
		}, format.ErrVersion, fmt.Sprintf("versions up to %d", format.Version)},
		{"future format of the database", func(t *testing.T, dir string) {
			made, _ := makeDatabase(t)
			must(t, os.Rename(made, dir))
			writeEntry(t, dir, []byte{format.PrefixVersion}, binary.BigEndian.AppendUint32([]byte("sluice"), 7))
		}, format.ErrVersion, "format version 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "data")
			if c.name != "below a file" {
				mkdir(t, filepath.Dir(dir))
			}
			c.make(t, dir)
			// The lock file contains the holder's number; all other files must stay.
			_ = os.Remove(filepath.Join(dir, folder.LockName))
			before := tree(t, filepath.Dir(filepath.Dir(dir)))
			s, err := Open(t.Context(), testConfig(dir), Parts{Table: newModel(0), Logger: quiet()})
			if err == nil {
				_ = s.Close(t.Context())
				t.Fatal("opened")
			}
			if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q; want one line with %q that is %v", err, c.says, c.is)
			}
			if !strings.Contains(err.Error(), filepath.Dir(dir)) {
				t.Errorf("error %q does not name the directory", err)
			}
			_ = os.Remove(filepath.Join(dir, folder.LockName))
			if after := tree(t, filepath.Dir(filepath.Dir(dir))); after != before {
				t.Error("the directory was touched")
			}
		})
	}
}

// makeBadger makes a database that isn't ours.
func makeBadger(t *testing.T, dir string) {
	t.Helper()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	if err == nil {
		err = db.Close()
	}
	must(t, err)
}

// touchAll returns what makes empty files below a folder.
func touchAll(files ...string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		for _, file := range files {
			mkdir(t, filepath.Dir(filepath.Join(dir, file)))
			touch(t, filepath.Join(dir, file))
		}
	}
}

func appendMarker(t *testing.T, dir, version string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, folder.MarkerName), []byte(folder.MarkerText+version+"\n"), 0o640))
}

// TestAcceptedDirectory: a fresh volume, and the remains of a process that died, or of a power cut
// or a full disk, while it created the folder.
func TestAcceptedDirectory(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, dir string){
		"missing":       func(t *testing.T, dir string) { t.Helper() },
		"empty":         mkdir,
		"fresh volume":  func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "lost+found")) },
		"empty marker":  touchAll(folder.MarkerName),
		"only a marker": func(t *testing.T, dir string) { mkdir(t, dir); appendMarker(t, dir, "1") },
		"half a first opening": func(t *testing.T, dir string) {
			mkdir(t, filepath.Join(dir, folder.DatabaseName))
			appendMarker(t, dir, "1")
			appendTo(t, filepath.Join(dir, folder.DatabaseName, "MANIFEST-REWRITE"), "Bd")
			appendTo(t, filepath.Join(dir, folder.DatabaseName, "LOCK"), "1")
		},
		"before the marker":   touchAll(folder.MarkerName + ".new"),
		"full disk":           touchAll(folder.LockName),
		"before the database": touchAll(folder.MarkerName, folder.LockName),
		"before its manifest": touchAll(folder.MarkerName, folder.LockName, folder.DatabaseName+"/LOCK"),
		"manifest without bytes": touchAll(folder.MarkerName, folder.LockName, folder.DatabaseName+"/"+badger.ManifestFilename,
			"tls.key", "ca.crt", "kubeconfig"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			do(t, dir)
			if err := CheckFolder(dir); err != nil {
				t.Fatalf("CheckFolder: %v", err)
			}
			s := mustOpen(t, dir, newModel(0))
			aside := s.count.setAside.Load() > 0 // only what looks like a database
			if ok, detail := s.Detail(); !ok || aside != (name == "manifest without bytes") {
				t.Fatal(ok, detail)
			}
			mustClose(t, s)
		})
	}
}

// TestSecondProcess: a folder in use is left alone, and the message names its holder.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := newModel(1)
	s := mustOpen(t, dir, model)
	model.put(0, 1, "a", "1")
	newStepper(s).period(t)

	_, err := Open(t.Context(), testConfig(dir), Parts{Table: newModel(0), Logger: quiet()})
	if !errors.Is(err, folder.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second Open: %v", err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := child.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by process") {
		t.Fatalf("second process: %v: %s", err, out)
	}
	mustClose(t, s)
	mustRestore(t, dir, model)
	if aside, _ := filepath.Glob(filepath.Join(dir, "*.damaged-*")); len(aside) > 0 {
		t.Fatalf("set aside: %v", aside)
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	if err := testConfig("/x").Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	err := Config{FlushInterval: 501e6}.Validate()
	for _, field := range []string{"Dir", "FlushInterval", "SyncInterval", "MinFreeBytes", "ProbeTimeout", "StopTimeout"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q does not name %s", err, field)
		}
	}
}
