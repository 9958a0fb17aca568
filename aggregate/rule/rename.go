package rule

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/internal/pattern"
	"github.com/sluice-metrics/sluice/metric"
)

// renaming is a compiled rename. It works in both directions without a list of names: a reader asks
// for the new name, and only the table knows the pushed ones.
type renaming struct {
	forward *regexp.Regexp // of pushed names
	to      []piece
	reverse *regexp.Regexp // of new names: the pieces of to, groups as in from
	from    []piece        // of from; groups are numbers
	groups  []int          // group of from that each group of reverse is
	size    int            // instructions of forward and reverse
}

// piece is literal text, or the number of a group.
type piece struct {
	text  string
	group int // 0: text
}

// maxInstructions bounds the compiled size of a pattern: repetitions in repetitions make megabytes
// of 128 bytes, and a match takes the time of instructions times bytes.
const maxInstructions = 300

// compileRename compiles a rename and returns all its faults.
func compileRename(r *Rename) (*renaming, []error) {
	parsed, err := parsePattern(r.From)
	if err != nil {
		return nil, []error{err}
	}
	n := &renaming{size: pattern.Instructions(parsed)}
	var bodies []string
	if n.from, bodies, err = splitPattern(parsed); err != nil {
		return nil, []error{err}
	}
	if n.to, err = splitTemplate(r.To, len(bodies)); err != nil {
		return nil, []error{err}
	}
	if err := checkMemory(parsed); err != nil {
		return nil, []error{err}
	}
	if n.forward, err = regexp.Compile("^(?:" + r.From + ")$"); err != nil {
		return nil, []error{fmt.Errorf("rename.from: %w", err)}
	}
	return n, n.invert(bodies)
}

// invert makes the reverse pattern: the template, in which each group is the pattern's.
func (n *renaming) invert(bodies []string) []error {
	var b strings.Builder
	b.WriteByte('^')
	for _, p := range n.to {
		if p.group == 0 {
			b.WriteString(regexp.QuoteMeta(p.text))
			continue
		}
		fmt.Fprintf(&b, "(%s)", bodies[p.group-1])
		n.groups = append(n.groups, p.group)
	}
	b.WriteByte('$')
	for i := range bodies {
		if !slices.Contains(n.groups, i+1) {
			return []error{fmt.Errorf("rename.to has no $%d; must use each group of rename.from, else the pushed name cannot be found from the new one: write (?:…) for text that is the same in all names", i+1)}
		}
	}
	parsed, err := syntax.Parse(b.String(), syntax.Perl)
	if err == nil {
		err = checkMemory(parsed)
	}
	if err == nil {
		n.size += pattern.Instructions(parsed)
		n.reverse, err = regexp.Compile(b.String())
	}
	if err != nil {
		return []error{fmt.Errorf("rename: %w", err)}
	}
	return nil
}

func parsePattern(text string) (*syntax.Regexp, error) {
	switch {
	case text == "":
		return nil, errors.New("rename.from is empty; must be a regular expression of whole names, as in (.*)_total")
	case len(text) > maxPattern:
		return nil, fmt.Errorf("rename.from has %d bytes; must have at most %d", len(text), maxPattern)
	}
	parsed, err := pattern.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("rename.from %q: %s", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if n := pattern.Instructions(parsed); n > maxInstructions {
		return nil, fmt.Errorf("rename.from %q takes %d instructions; must take at most %d: lower its repetitions",
			text, n, maxInstructions)
	}
	return parsed, nil
}

// maxProgram bounds the memory of a pattern, of whose classes each instruction counts: \pL has 1,300 bounds of ranges.
// That of 49 letters and four Unicode classes, each of which may be missing, takes 0.9 MB.
const maxProgram = 256 << 10

func checkMemory(parsed *syntax.Regexp) error {
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	if n := pattern.Bytes(program); n > maxProgram {
		return fmt.Errorf("rename.from takes %d KiB of memory; must take at most %d: use fewer Unicode classes, such as \\pL, or parts that may be missing",
			n>>10, maxProgram>>10)
	}
	return nil
}

// splitPattern splits a pattern into literal text and groups, and returns the patterns of the
// groups. Anything else could not be written back.
func splitPattern(r *syntax.Regexp) (pieces []piece, bodies []string, err error) {
	parts := []*syntax.Regexp{r}
	if r.Op == syntax.OpConcat {
		parts = r.Sub
	}
	for _, part := range parts {
		switch {
		case part.Op == syntax.OpLiteral && part.Flags&syntax.FoldCase == 0:
			pieces = append(pieces, piece{text: string(part.Rune)})
		case part.Op == syntax.OpBeginText && len(pieces) == 0, part.Op == syntax.OpEndText:
			// the whole name is matched anyway
		case part.Op == syntax.OpCapture && part.Sub[0].MaxCap() == 0:
			bodies = append(bodies, "(?:"+part.Sub[0].String()+")")
			pieces = append(pieces, piece{group: len(bodies)})
		case part.Op == syntax.OpCapture:
			return nil, nil, fmt.Errorf("rename.from has a group in the group %s; must write the inner one as (?:…)", quoted(part))
		default:
			return nil, nil, fmt.Errorf("rename.from has %s outside of a group; must be in parentheses and used in rename.to, because the pushed name is found from the new one", quoted(part))
		}
	}
	return pieces, bodies, nil
}

// quoted is a part of a pattern. That of \pL is written with each of its ranges, 10 KB.
func quoted(part *syntax.Regexp) string { return metric.Truncate(part.String(), maxPattern) }

var groupReference = regexp.MustCompile(`\$(\d{1,2}|\{\d{1,2}\}|.?)`)

// splitTemplate splits a template into literal text and references to groups.
func splitTemplate(text string, groups int) (pieces []piece, err error) {
	at := 0
	literal := func(end int) {
		if end > at {
			pieces = append(pieces, piece{text: text[at:end]})
		}
	}
	for _, found := range groupReference.FindAllStringIndex(text, -1) {
		number, err := strconv.Atoi(strings.Trim(text[found[0]:found[1]], "${}"))
		if err != nil || number < 1 || number > groups {
			return nil, fmt.Errorf("rename.to has %q; must be $1 to $%d: rename.from has %d groups", text[found[0]:found[1]],
				max(groups, 1), groups)
		}
		if slices.ContainsFunc(pieces, func(p piece) bool { return p.group == number }) {
			return nil, fmt.Errorf("rename.to has $%d twice; must have each group once", number)
		}
		literal(found[0])
		pieces, at = append(pieces, piece{group: number}), found[1]
	}
	literal(len(text))
	sample := strings.Map(func(r rune) rune {
		if strings.ContainsRune("${}", r) {
			return 'x'
		}
		return r
	}, text)
	return pieces, checkMetric("rename.to", sample)
}

// checkMetric checks the name of a metric that a rule makes.
func checkMetric(field, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty; must be the name of a metric", field)
	case len(name) > maxMetric:
		return fmt.Errorf("%s has %d bytes; must have at most %d", field, len(name), maxMetric)
	case metric.HasReservedSuffix(name):
		return fmt.Errorf("%s is %q; must not end in a stat or a window", field, name)
	case metric.CheckName(name) != metric.Applied:
		return fmt.Errorf("%s is %q; must be a name that a metric can have: without %%, ? and control characters",
			field, name)
	}
	return nil
}

// New returns the new name of a pushed metric.
func (n *renaming) New(pushed string) (string, bool) {
	groups := n.forward.FindStringSubmatch(pushed)
	if groups == nil {
		return "", false
	}
	name := join(n.to, groups)
	return name, len(name) <= metric.MaxNameLength // a longer one is no name
}

// Pushed returns the pushed name that a new name stands for. Where groups can be cut in several
// ways, the first ones are as long as they can be.
func (n *renaming) Pushed(name string) (string, bool) {
	found := n.reverse.FindStringSubmatch(name)
	if found == nil {
		return "", false
	}
	groups := make([]string, len(n.groups)+1)
	for i, group := range n.groups {
		groups[group] = found[i+1]
	}
	pushed := join(n.from, groups)
	again, ok := n.New(pushed)
	return pushed, ok && again == name && pushed != name
}

func join(pieces []piece, groups []string) string {
	var b strings.Builder
	for _, p := range pieces {
		if p.group == 0 {
			b.WriteString(p.text)
		} else {
			b.WriteString(groups[p.group])
		}
	}
	return b.String()
}
