package scrape

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

// maxFiltered bounds the lines that are kept of a page, maxLine each of them.
const (
	maxFiltered = 1 << 20
	maxLine     = 64 << 10
)

// filter keeps the lines of named families of a page. It reads line by line, so a page of any length
// takes the memory of what is kept.
//
// The kept lines are a body of the text format 0.0.4, for exposition.TextReader: of OpenMetrics, counters
// have the names of their samples, and neither timestamps nor exemplars nor creation times are kept. Lines
// that are not understood are kept as they are, where they begin with a wanted name, for the reader to
// say what is wrong.
type filter struct {
	wanted      map[string]*wanted
	openMetrics bool
	out         []byte
	share       share // of what pages keep that are read at once

	// The family of the last TYPE line: its samples have its name, or that name and a suffix.
	family   []byte
	compound bool    // histogram or summary
	taken    *wanted // nil: the family is not wanted
	long     []byte  // a line that is longer than the reader's buffer
}

// wanted is a name that is taken, and whether the page has it.
type wanted struct {
	compound bool
	found    bool
}

func wantedNames(names []string) map[string]*wanted {
	all := make(map[string]*wanted, len(names))
	for _, name := range names {
		all[name] = new(wanted)
	}
	return all
}

// missing are the names that the page did not have, in the order of names.
func (f *filter) missing(names []string) (all []string) {
	for _, name := range names {
		if !f.wanted[name].found {
			all = append(all, name)
		}
	}
	return all
}

var errLongLine = errors.New("a line has more than " + strconv.Itoa(maxLine) + " bytes")

// read filters a page into out.
func (f *filter) read(wanted map[string]*wanted, openMetrics bool, page *bufio.Reader) error {
	f.wanted, f.openMetrics, f.out = wanted, openMetrics, f.out[:0]
	f.family, f.compound, f.taken = f.family[:0], false, nil
	for _, w := range wanted {
		w.compound, w.found = false, false
	}
	for {
		line, err := page.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			line, err = f.readLong(line, page)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		f.line(bytes.TrimRight(line, "\r\n"))
		if len(f.out) > maxFiltered {
			return errTooLarge{"the named metrics", maxFiltered}
		}
		if err := f.keep(); err != nil {
			return err
		}
		if err != nil {
			return nil
		}
	}
}

// keep keeps the page's share of memory what it has to be.
func (f *filter) keep() error {
	if f.share.keep(cap(f.out) + cap(f.long)) {
		return nil
	}
	return errTooLarge{"the pages that are read at once", f.share.room.most}
}

// readLong reads the rest of a line whose beginning is given. Only a line that is kept may be that long.
func (f *filter) readLong(begin []byte, page *bufio.Reader) ([]byte, error) {
	f.long = append(f.long[:0], begin...)
	for {
		part, err := page.ReadSlice('\n')
		if len(f.long) <= maxLine {
			f.long = append(f.long, part...)
		}
		if full := f.keep(); full != nil {
			return nil, full
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case len(f.long) > maxLine && f.wants(f.long):
			return nil, errLongLine
		case len(f.long) > maxLine:
			return nil, err
		}
		return f.long, err
	}
}

// line takes one line.
func (f *filter) line(line []byte) {
	line = bytes.TrimLeft(line, " \t")
	switch {
	case len(line) == 0:
	case line[0] == '#':
		f.comment(line)
	case f.wants(line):
		f.out = append(append(f.out, bare(line)...), '\n')
	}
}

// comment takes a comment: only that of a type says anything.
func (f *filter) comment(line []byte) {
	if len(line) > 2 && line[1] == ' ' && line[2] == 'H' {
		return // most others are help texts
	}
	keyword, rest := cutWord(line[1:])
	if string(keyword) != "TYPE" {
		return
	}
	name, rest := cutWord(rest)
	kind, _ := cutWord(rest)
	name = unquoted(name)
	f.family = append(f.family[:0], name...)
	f.compound = bytes.HasSuffix(kind, []byte("histogram")) || string(kind) == "summary"
	if f.openMetrics && string(kind) == "counter" {
		f.family = append(f.family, "_total"...)
	}
	w := f.wanted[string(f.family)]
	if f.taken = w; w == nil {
		return
	}
	w.compound = f.compound
	switch string(kind) {
	case "unknown", "info", "stateset":
		return // the text format has no such types
	}
	f.out = append(f.out, "# TYPE "...)
	f.out = appendName(f.out, f.family)
	f.out = append(append(append(f.out, ' '), kind...), '\n')
}

// wants reports whether a line is a sample of a wanted family.
func (f *filter) wants(line []byte) bool {
	name := sampleName(line)
	if len(name) == 0 {
		return false
	}
	w, known := f.taken, false
	if suffix, has := bytes.CutPrefix(name, f.family); has { // most lines follow the TYPE of their family
		known = len(suffix) == 0 || f.compound && isCompoundSuffix(suffix)
	}
	if !known {
		w = f.ownerOf(name)
	}
	if w == nil {
		return false
	}
	w.found = true
	return true
}

// ownerOf is the wanted name that a sample belongs to, whatever stands before it; nil: none.
func (f *filter) ownerOf(name []byte) *wanted {
	for _, suffix := range compoundSuffixes {
		if base, has := bytes.CutSuffix(name, suffix); has {
			if w := f.wanted[string(base)]; w != nil && w.compound {
				return w
			}
		}
	}
	return f.wanted[string(name)]
}

func isCompoundSuffix(text []byte) bool {
	for _, suffix := range compoundSuffixes {
		if bytes.Equal(text, suffix) {
			return true
		}
	}
	return false
}

var compoundSuffixes = [...][]byte{[]byte("_bucket"), []byte("_sum"), []byte("_count")}

// sampleName is the name of a sample's line; empty: it has none.
func sampleName(line []byte) []byte {
	if line[0] == '{' { // {"name",label="value"} 1
		quoted := bytes.TrimLeft(line[1:], " \t")
		if len(quoted) == 0 || quoted[0] != '"' {
			return nil
		}
		end := bytes.IndexByte(quoted[1:], '"')
		if end < 0 {
			return nil
		}
		return quoted[1 : 1+end]
	}
	for i, c := range line {
		if c == '{' || c == ' ' || c == '\t' {
			return line[:i]
		}
	}
	return line
}

// bare is a sample's line without timestamp and exemplar.
func bare(line []byte) []byte {
	at := bytes.IndexAny(line, "{ \t")
	if at < 0 {
		return line
	}
	if line[at] == '{' {
		end := labelsEnd(line[at:])
		if end < 0 {
			return line
		}
		at += end
	}
	value := len(line) - len(bytes.TrimLeft(line[at:], " \t"))
	end := bytes.IndexAny(line[value:], " \t")
	if end < 0 {
		return line
	}
	end += value
	if stamp, _ := cutWord(line[end:]); len(stamp) > 0 && stamp[0] != '#' {
		if _, err := strconv.ParseFloat(string(stamp), 64); err != nil {
			return line
		}
	}
	return line[:end]
}

// labelsEnd is the position after the brace that ends the labels; -1: there is none.
func labelsEnd(labels []byte) int {
	quoted := false
	for i := 0; i < len(labels); i++ {
		switch c := labels[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return -1
}

// cutWord cuts the first word off.
func cutWord(text []byte) (word, rest []byte) {
	text = bytes.TrimLeft(text, " \t")
	if end := bytes.IndexAny(text, " \t"); end >= 0 {
		return text[:end], text[end:]
	}
	return text, nil
}

func unquoted(name []byte) []byte {
	if len(name) >= 2 && name[0] == '"' && name[len(name)-1] == '"' {
		return name[1 : len(name)-1]
	}
	return name
}

// appendName appends a name as a TYPE line has it. No wanted name has a quote or a backslash.
func appendName(to, name []byte) []byte {
	if strings.ContainsFunc(string(name), func(c rune) bool {
		return c != '_' && c != ':' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) {
		return append(append(append(to, '"'), name...), '"')
	}
	return append(to, name...)
}
