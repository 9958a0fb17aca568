package footprint

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const smaps = `00400000-026d8000 r-xp 00000000 fe:00 1234                               /opt/my sluice
Rss:               23584 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
026d8000-04f05000 r--p 022d8000 fe:00 1234                               /opt/my sluice
Rss:               24756 kB
Anonymous:             %anonymous
VmFlags: rd mr mw me sd
04f05000-05040000 rw-p 04b05000 fe:00 1234                               /opt/my sluice
Anonymous:             0 kB
05040000-070ba000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000100000 r--p 00000000 fe:00 99                         /opt/my sluice
Anonymous:             0 kB
`

// Only pages that are as in the file may be dropped: not those of a writable mapping, and not those
// of a mapping with changed pages.
func TestProgramMappings(t *testing.T) {
	code, constants := mapping{0x400000, 0x22d8000}, mapping{0x26d8000, 0x282d000}
	for _, c := range []struct {
		anonymous, path string
		want            []mapping
	}{
		{"0 kB", "/opt/my sluice", []mapping{code, constants}},
		{"4 kB", "/opt/my sluice", []mapping{code}},
		{"0 kB", "/opt/other", nil},
	} {
		got, err := programMappings(strings.NewReader(strings.Replace(smaps, "%anonymous", c.anonymous, 1)), c.path)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s, changed pages %s: %v, %v; want %v", c.path, c.anonymous, got, err, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("mapping %d: %x; want %x", i, got[i], c.want[i])
			}
		}
	}
}

// The program continues after its pages are dropped, and fewer are resident.
func TestDropProgram(t *testing.T) {
	if _, err := os.Stat("/proc/self/smaps"); err != nil {
		t.Skip("needs /proc/self/smaps")
	}
	touchProgram(t)
	before := residentFiles(t)
	if err := dropProgram(); err != nil {
		t.Fatal(err)
	}
	after := residentFiles(t)
	if after > before/10*9 { // some are in use at once
		t.Errorf("%d KiB of files were resident, %d KiB are", before>>10, after>>10)
	}
}

// touchProgram reads every page of the program's constants and code.
func touchProgram(t *testing.T) {
	t.Helper()
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mappings, err := programMappings(file, path)
	if err != nil || len(mappings) == 0 {
		t.Fatalf("the program's mappings: %v, %v", mappings, err)
	}
	for _, m := range mappings {
		if err := m.advise(unix.MADV_POPULATE_READ); err != nil {
			t.Skip(err)
		}
	}
}

// residentFiles returns the resident bytes of mapped files.
func residentFiles(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, resident, files int64
	if _, err := fmt.Sscan(string(text), &size, &resident, &files); err != nil {
		t.Fatal(err)
	}
	return files * int64(os.Getpagesize())
}
