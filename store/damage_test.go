package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
)

// made is a closed database with tables, created once, and the model of it.
var made = sync.OnceValues(func() (savedFolder, *modelTable) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	r := rand.New(rand.NewPCG(1, 2))
	model := newModel(6)
	table := Table(model)
	for _, periods := range []int{150, 0} { // the second opening makes the last log a table
		s, err := open(context.Background(), testConfig(dir), Parts{Table: table, Logger: quiet()}, database.StorageProcess, database.FreeBytes)
		if err != nil {
			panic(err)
		}
		clock := newStepper(s)
		for range periods {
			model.randomOps(r, 15)
			clock.now = clock.now.Add(s.cfg.FlushInterval)
			if err := s.flushStep(clock.now); err != nil {
				panic(err)
			}
		}
		if err := s.Close(context.Background()); err != nil {
			panic(err)
		}
		table = newModel(0)
	}
	saved, err := readFolder(dir)
	if err != nil {
		panic(err)
	}
	return saved, model
})

// makeDatabase returns a data folder with a closed database, and the model of it, which must not be
// changed.
func makeDatabase(t *testing.T) (dir string, model *modelTable) {
	t.Helper()
	saved, model := made()
	return saved.write(t), model
}

func databaseFiles(t *testing.T, dir, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, folder.DatabaseName, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s in the database: %v", pattern, err)
	}
	return files
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	must(t, os.Truncate(path, size))
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	stat, err := os.Stat(path)
	must(t, err)
	return stat.Size()
}

func overwrite(t *testing.T, path string, at int64, with []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(with, at)
	}
	must(t, errors.Join(err, f.Close()))
}

// TestDamagedDatabase: whatever is wrong with the files, Open succeeds, deletes nothing and
// renames the damaged database, and the new one works.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	type damage struct {
		name string
		do   func(t *testing.T, dir string)
	}
	var cases []damage
	for _, part := range []int64{0, 5} { // tenths
		cases = append(cases, damage{fmt.Sprintf("table cut to %d tenths", part), func(t *testing.T, dir string) {
			for _, f := range databaseFiles(t, dir, "*.sst") {
				truncate(t, f, fileSize(t, f)*part/10)
			}
		}})
	}
	cases = append(cases,
		damage{"table lacks its last byte", func(t *testing.T, dir string) {
			f := databaseFiles(t, dir, "*.sst")[0]
			truncate(t, f, fileSize(t, f)-1)
		}},
		damage{"table with a flipped byte", func(t *testing.T, dir string) {
			f := databaseFiles(t, dir, "*.sst")[0]
			overwrite(t, f, fileSize(t, f)/3, []byte{0xa5, 0x5a, 0xa5})
		}},
		damage{"table missing", func(t *testing.T, dir string) { removeFile(t, databaseFiles(t, dir, "*.sst")[0]) }},
		damage{"manifest missing", func(t *testing.T, dir string) { removeFile(t, databaseFiles(t, dir, "MANIFEST")[0]) }},
		damage{"manifest garbage", func(t *testing.T, dir string) {
			overwrite(t, databaseFiles(t, dir, "MANIFEST")[0], 20, []byte("garbage"))
		}},
		damage{"manifest of another program", func(t *testing.T, dir string) {
			overwrite(t, databaseFiles(t, dir, "MANIFEST")[0], 4, []byte{0, 9})
		}},
		damage{"key registry garbage", func(t *testing.T, dir string) {
			overwrite(t, databaseFiles(t, dir, "KEYREGISTRY")[0], 3, []byte(strings.Repeat("garbage", 9)))
		}},
		damage{"key registry empty", func(t *testing.T, dir string) { truncate(t, databaseFiles(t, dir, "KEYREGISTRY")[0], 0) }},
		damage{"manifest and copy empty", func(t *testing.T, dir string) {
			truncate(t, databaseFiles(t, dir, "MANIFEST")[0], 0)
			truncate(t, databaseFiles(t, dir, "MANIFEST.copy")[0], 0)
		}},
		damage{"manifest cut, copy missing", func(t *testing.T, dir string) {
			f := databaseFiles(t, dir, "MANIFEST")[0]
			truncate(t, f, 16)
			removeFile(t, databaseFiles(t, dir, "MANIFEST.copy")[0])
		}},
		damage{"no format version", func(t *testing.T, dir string) {
			writeEntry(t, dir, []byte{format.PrefixVersion}, []byte("something else"))
		}},
		damage{"no clock", func(t *testing.T, dir string) { writeEntry(t, dir, []byte{format.PrefixClock}, []byte("short")) }},
		damage{"clock that the table refuses", func(t *testing.T, dir string) {
			writeEntry(t, dir, []byte{format.PrefixClock}, []byte("12345678 not a clock"))
		}},
		damage{"the last three openings ended in death", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, folder.RestoreName), []byte("3"), 0o640))
		}},
	)
	master, _ := makeDatabase(t)
	manifest := fileSize(t, databaseFiles(t, master, "MANIFEST")[0])
	for _, at := range []int64{0, 16, manifest / 2, manifest - 1} {
		cases = append(cases, damage{fmt.Sprintf("manifest cut to %d of %d bytes", at, manifest), func(t *testing.T, dir string) {
			truncate(t, databaseFiles(t, dir, "MANIFEST")[0], at)
		}})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := makeDatabase(t)
			c.do(t, dir)
			before := databaseFiles(t, dir, "*")
			mustStartEmpty(t, dir, before)
		})
	}
}

// The last process was killed when it had set the database aside, and had begun no other one.
func TestKilledAfterItSetTheDatabaseAside(t *testing.T) {
	t.Parallel()
	dir, _ := makeDatabase(t)
	before := databaseFiles(t, dir, "*")
	database := filepath.Join(dir, folder.DatabaseName)
	must(t, os.Rename(database, database+".damaged-20260101T000000Z"))
	mustStartEmpty(t, dir, before)
}

// mustStartEmpty opens a damaged data folder.
func mustStartEmpty(t *testing.T, dir string, before []string) {
	t.Helper()
	table := newModel(0)
	s := mustOpenLocal(t, dir, table)
	if !table.done || len(table.blocks) > 0 {
		t.Fatalf("RestoreDone %v, %d blocks restored from a damaged database", table.done, len(table.blocks))
	}
	ok, detail := s.Detail()
	aside, _ := filepath.Glob(filepath.Join(dir, folder.DatabaseName+".damaged-*"))
	if !ok || len(aside) != 1 || !strings.Contains(detail, aside[0]) || !strings.Contains(detail, "started empty") {
		t.Fatalf("Detail: %v %q; set aside: %v", ok, detail, aside)
	}
	t.Log(detail)
	for _, f := range before {
		if _, err := os.Stat(filepath.Join(aside[0], filepath.Base(f))); err != nil && !emptyLog(f) {
			t.Errorf("gone from what was set aside: %v", err)
		}
	}
	table.add(2)
	table.put(1, 5, "a", "1")
	newStepper(s).period(t)
	mustClose(t, s)
	again := newModel(0)
	s = mustOpenLocal(t, dir, again)
	table.mustEqual(t, again)
	mustClose(t, s)
}

func emptyLog(path string) bool {
	return slices.Contains([]string{".mem", ".vlog"}, filepath.Ext(path))
}

func removeFile(t *testing.T, path string) {
	t.Helper()
	must(t, os.Remove(path))
}

// writeEntry overwrites an entry of a closed database.
func writeEntry(t *testing.T, dir string, key, value []byte) {
	t.Helper()
	editDatabase(t, dir, func(txn database.Transaction) error { return txn.Set(key, value) })
}

// TestHarmlessDamage: files that a killed process leaves behind, and damage to files that nobody
// needs, lose no data.
func TestHarmlessDamage(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, dir string){
		"empty log":             func(t *testing.T, dir string) { touch(t, filepath.Join(dir, folder.DatabaseName, "00099.mem")) },
		"empty value log":       func(t *testing.T, dir string) { touch(t, filepath.Join(dir, folder.DatabaseName, "000099.vlog")) },
		"value logs cut":        func(t *testing.T, dir string) { truncate(t, databaseFiles(t, dir, "*.vlog")[0], 0) },
		"key registry missing":  func(t *testing.T, dir string) { removeFile(t, databaseFiles(t, dir, "KEYREGISTRY")[0]) },
		"discard stats missing": func(t *testing.T, dir string) { removeFile(t, databaseFiles(t, dir, "DISCARD")[0]) },
		"manifest copy missing": func(t *testing.T, dir string) { removeFile(t, databaseFiles(t, dir, "MANIFEST.copy")[0]) },
		"manifest copy garbage": func(t *testing.T, dir string) {
			overwrite(t, databaseFiles(t, dir, "MANIFEST.copy")[0], 0, []byte("zzz"))
		},
		"half a manifest entry": func(t *testing.T, dir string) {
			appendTo(t, databaseFiles(t, dir, "MANIFEST")[0], "\x00\x00\x00\x40abc")
		},
		"a table not listed yet": func(t *testing.T, dir string) {
			touch(t, filepath.Join(dir, folder.DatabaseName, "000999.sst"))
		},
		"left over trial": func(t *testing.T, dir string) {
			must(t, os.Mkdir(filepath.Join(dir, folder.ProbeName), 0o750))
			touch(t, filepath.Join(dir, folder.ProbeName, "000001.sst"))
		},
		"marker empty": func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, folder.MarkerName), 0) },
		"all small files empty": func(t *testing.T, dir string) { // as a power cut may leave them
			for _, empty := range []string{folder.MarkerName, folder.LockName, "kubeconfig", "ca.crt", "tls.crt", "tls.key", "kubeconfig.new"} {
				must(t, os.WriteFile(filepath.Join(dir, empty), nil, 0o640))
			}
		},
		"two openings that ended in death": func(t *testing.T, dir string) { appendTo(t, filepath.Join(dir, folder.RestoreName), "2") },
	} {
		t.Run(name, func(t *testing.T) {
			dir, model := makeDatabase(t)
			do(t, dir)
			if err := CheckFolder(dir); err != nil {
				t.Fatalf("CheckFolder: %v", err)
			}
			restored := newModel(0)
			s := mustOpenLocal(t, dir, restored)
			model.mustEqual(t, restored)
			if ok, detail := s.Detail(); !ok || strings.Contains(detail, "empty") {
				t.Fatalf("Detail: %v %q", ok, detail)
			}
			mustClose(t, s)
			text, err := os.ReadFile(filepath.Join(dir, folder.MarkerName))
			if err != nil || !strings.HasPrefix(string(text), folder.MarkerText) {
				t.Errorf("the marker says %q, %v", text, err)
			}
		})
	}
}

func touch(t *testing.T, path string) { t.Helper(); appendTo(t, path, "") }

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err == nil {
		_, err = f.WriteString(text)
	}
	must(t, errors.Join(err, f.Close()))
}
