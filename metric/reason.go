package metric

import (
	"strings"
	"unicode/utf8"
)

// Reason says why a sample was refused. It is a label value of the metrics, so the list is closed.
type Reason uint8

// The reasons. Applied is the zero value: nothing was refused.
const (
	Applied      Reason = iota
	Malformed           // the grammar does not hold: an empty name, value or type, a number that is none
	BadName             // the name cannot be asked for through a Kubernetes API, or a label holds a control character
	BadRate             // a sample rate outside (0,1]
	BadValue            // NaN, infinite, or beyond what can be held
	Unsupported         // understood, but not a metric: events, service checks
	TooLong             // a line, name, tag or number of tags over its limit
	KindConflict        // the name already has another kind on this object
	Identity            // the sender may not speak of that object, or the object is ambiguous
	OverLimit           // a new series where no more may be
	Ignored             // matches an ignore pattern: counted, never kept
	Outdated            // a gauge's value of more than MaxGaugeAge ago

	numReasons
)

// Pending is not among the reasons: the sample was neither applied nor refused, for it is not known yet whose it is.
const Pending Reason = 100

// NumReasons is how many Reasons there are, Applied included: the length of an array indexed by Reason.
const NumReasons = int(numReasons)

var reasonNames = [numReasons]string{
	"applied", "malformed", "name", "rate", "value", "unsupported", "too_long",
	"kind_conflict", "identity", "limit", "ignored", "outdated",
}

func (r Reason) String() string {
	if r < numReasons {
		return reasonNames[r]
	}
	if r == Pending {
		return "pending"
	}
	return "invalid"
}

// Reasons lists every way to be refused, in a fixed order.
func Reasons() []Reason {
	all := make([]Reason, 0, numReasons-1)
	for r := Malformed; r < numReasons; r++ {
		all = append(all, r)
	}
	return all
}

// CheckName says whether a metric of this name could be asked for: a custom metric is a path segment and
// a subresource, so "%", "?" and the names of other subresources are out (custom metrics API proposal,
// "Metric Names"). So are bytes that are not UTF-8: an answer in JSON would rewrite them, and different names
// would look the same; and control characters (C0, DEL, C1), which who prints a name would obey. "/" is allowed: readers write it as "\|".
func CheckName(name string) Reason {
	switch name {
	case "":
		return Malformed
	case ".", "..", "status", "finalize":
		return BadName
	}
	if len(name) > MaxNameLength {
		return TooLong
	}
	if strings.ContainsAny(name, "%?") || HasControl(name) || HasReservedSuffix(name) || !utf8.ValidString(name) {
		return BadName
	}
	return Applied
}

// CheckLabel says whether a series may have the label. Bytes that are not UTF-8 are Malformed: an answer in JSON would
// rewrite them, and different labels would look the same. Control characters are BadName, as in names.
func CheckLabel(l Label) Reason {
	switch {
	case HasControl(l.Key), HasControl(l.Value):
		return BadName
	case !utf8.ValidString(l.Key), !utf8.ValidString(l.Value):
		return Malformed
	}
	return Applied
}

// HasControl reports whether a text holds a control character (C0, DEL, C1), which a terminal would obey.
func HasControl(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		// U+0080 to U+009F are C2 80 to C2 9F; after a C2 nothing below is UTF-8.
		if c < ' ' || c == 0x7f || c == 0xc2 && i+1 < len(text) && text[i+1] < 0xa0 {
			return true
		}
	}
	return false
}

// MaxNameLength bounds a metric's name, in bytes.
const MaxNameLength = 512
