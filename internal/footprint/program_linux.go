package footprint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errNoProgram: /proc doesn't show the program's file among the mappings.
var errNoProgram = errors.New("the program's mappings are not known")

// dropProgram unmaps the pages of the program's code and constants. A page that is used again comes
// from the page cache, or from the file; until then the kernel may use its memory otherwise.
func dropProgram() error {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer file.Close()
	mappings, err := programMappings(file, path)
	if err == nil && len(mappings) == 0 {
		err = errNoProgram
	}
	for _, m := range mappings {
		err = errors.Join(err, m.drop())
	}
	return err
}

// A mapping is a range of addresses.
type mapping struct {
	start  uintptr
	length uintptr
}

// drop unmaps the pages of a mapping. A page that is unmapped after random access does not count as
// used, so the kernel does not prefer it to other files' pages.
func (m mapping) drop() error {
	for _, advice := range []int{unix.MADV_RANDOM, unix.MADV_DONTNEED, unix.MADV_NORMAL} {
		if err := m.advise(advice); err != nil {
			return err
		}
	}
	return nil
}

func (m mapping) advise(advice int) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.length, uintptr(advice)); errno != 0 {
		return fmt.Errorf("madvise %d: %w", advice, errno)
	}
	return nil
}

// programMappings returns the mappings of the file at path, from the text of /proc/self/smaps,
// whose every page is as in the file. A page that was written to would be lost: relocated constants
// of a position-independent program, or the break point of a debugger. It reads no further than the
// program's mappings: the kernel counts pages only as the text is read.
func programMappings(smaps io.Reader, path string) ([]mapping, error) {
	var found []mapping
	var current mapping
	lines := bufio.NewScanner(smaps)
	ours, seen := false, false
	for lines.Scan() {
		line := lines.Text()
		if m, permissions, name, isHeader := parseHeader(line); isHeader {
			if seen && name != path {
				break
			}
			seen = name == path
			ours = seen && (permissions == "r-xp" || permissions == "r--p")
			current = m
			continue
		}
		if size, isAnonymous := strings.CutPrefix(line, "Anonymous:"); ours && isAnonymous &&
			strings.TrimSpace(size) == "0 kB" {
			found = append(found, current)
		}
	}
	return found, lines.Err()
}

// parseHeader parses the line that begins a mapping: "400000-26d8000 r-xp 00000000 fe:00 123
// /path".
func parseHeader(line string) (m mapping, permissions, name string, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return mapping{}, "", "", false
	}
	first, last, isRange := strings.Cut(fields[0], "-")
	start, err1 := strconv.ParseUint(first, 16, 64)
	end, err2 := strconv.ParseUint(last, 16, 64)
	if !isRange || err1 != nil || err2 != nil || end <= start {
		return mapping{}, "", "", false
	}
	return mapping{uintptr(start), uintptr(end - start)}, fields[1], strings.Join(fields[5:], " "), true
}
