package metric

import (
	"strconv"
	"strings"
	"time"
)

// Expression names a metric in a query: "name[:stat][:window]".
type Expression struct {
	Name   string
	Stat   Stat          // NoStat: the kind's default
	Window time.Duration // 0: the default window
}

// ParseExpression parses from the right end and cannot fail: text that is neither a window nor a
// stat belongs to the name. Names that end like a window or a stat are rejected when they are
// pushed (HasReservedSuffix), so every pushed name can be queried.
func ParseExpression(s string) Expression {
	a := Expression{Name: s}
	if head, tail, ok := cutLast(a.Name); ok {
		if w, isWindow := ParseWindow(tail); isWindow {
			a.Name, a.Window = head, w
		}
	}
	if head, tail, ok := cutLast(a.Name); ok {
		if stat, isStat := ParseStat(tail); isStat {
			a.Name, a.Stat = head, stat
		}
	}
	return a
}

// AskedExpression is ParseExpression for the text of a reader, whose length nothing else bounds: the API server takes
// autoscalers with names of a megabyte. A name that is longer than any series, or new name of a rule, can have is
// ErrInvalidQuery, before anything is matched with it: 300 patterns of policies or rules take minutes for 60 KiB.
func AskedExpression(s string) (Expression, error) {
	e := ParseExpression(s)
	if len(e.Name) > MaxNameLength {
		return Expression{}, InvalidQueryf("the name of the metric has %d bytes; must have at most %d", len(e.Name), MaxNameLength)
	}
	return e, nil
}

// String prints the text that ParseExpression parses.
func (a Expression) String() string {
	s := a.Name
	if a.Stat != NoStat {
		s += ":" + a.Stat.String()
	}
	if a.Window != 0 {
		s += ":" + FormatWindow(a.Window)
	}
	return s
}

// HasReservedSuffix reports whether a name ends in ":stat" or ":window" and so could never be
// queried.
func HasReservedSuffix(name string) bool {
	_, tail, ok := cutLast(name)
	if !ok {
		return false
	}
	if _, isStat := ParseStat(tail); isStat {
		return true
	}
	_, isWindow := ParseWindow(tail)
	return isWindow
}

// ParseWindow parses the window of an Expression: a whole number above 0 and one unit, s, m, h or
// d: "10s", "1m". Combinations like "1m30s" are not windows.
func ParseWindow(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 6 || s[0] == '0' {
		return 0, false
	}
	n := time.Duration(0)
	for _, c := range []byte(s[:len(s)-1]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + time.Duration(c-'0')
	}
	unit, ok := windowUnits[s[len(s)-1]]
	return n * unit, ok
}

var windowUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}

// FormatWindow prints a window in the largest unit that divides it: 60s is "1m".
func FormatWindow(w time.Duration) string {
	for _, unit := range []byte("dhm") {
		if size := windowUnits[unit]; w >= size && w%size == 0 {
			return strconv.FormatInt(int64(w/size), 10) + string(unit)
		}
	}
	return strconv.FormatInt(int64(w/time.Second), 10) + "s"
}

func cutLast(s string) (head, tail string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// BareName is the name without stat and window, of a metric as the specification of an autoscaler names it:
// there, "\|" may stand for "/".
func BareName(asked string) string {
	return ParseExpression(strings.ReplaceAll(asked, `\|`, "/")).Name
}
