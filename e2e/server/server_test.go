package server

import (
	"debug/elf"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	Remove()
	os.Exit(code)
}

// One static binary: it needs no loader and no library of the system.
func TestBinaryIsStatic(t *testing.T) {
	path, err := build()
	must(t, err)
	binary, err := elf.Open(path)
	if err != nil {
		t.Skipf("%s is no ELF file: %v", path, err)
	}
	defer binary.Close()
	for _, segment := range binary.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("%s needs a loader; must be built with CGO_ENABLED=0", path)
		}
	}
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("%s needs the libraries %v (%v); must need none", path, libraries, err)
	}
}
