package metric

import (
	"strings"
	"unicode/utf8"
)

// Reason says why a sample was rejected. It is a label value of Sluice's own metrics, so the list
// is closed.
type Reason uint8

// The reasons. Applied is the zero value: the sample was not rejected.
const (
	Applied      Reason = iota
	Malformed           // a grammar error: an empty name, value or type, or an invalid number
	BadName             // a name that no Kubernetes API can serve, or a control character in a label
	BadRate             // a sample rate outside (0,1]
	BadValue            // NaN, infinite, or out of range
	Unsupported         // valid, but nothing that can be kept: events, gauge histograms, timestamps of pushed pages
	TooLong             // a line, name, tag or number of tags over its limit
	KindConflict        // the object has a metric of this name and another kind
	Identity            // the sender may not push for the object, or the object is ambiguous
	OverLimit           // a new series or group over a limit, a body of too many metrics, or one too many in flight
	Ignored             // the name matches an ignore pattern
	Outdated            // a gauge's value is older than MaxGaugeAge

	numReasons
)

// Pending is not a Reason of rejection: the sample is neither applied nor rejected until its sender
// is known.
const Pending Reason = 100

// NumReasons is the number of Reasons including Applied: the length of an array indexed by Reason.
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

// ReasonOf returns the reason of a name; Applied: there is none.
func ReasonOf(name string) Reason {
	for r := Malformed; r < numReasons; r++ {
		if reasonNames[r] == name {
			return r
		}
	}
	return Applied
}

// Reasons lists all reasons of rejection, in a fixed order.
func Reasons() []Reason {
	all := make([]Reason, 0, numReasons-1)
	for r := Malformed; r < numReasons; r++ {
		all = append(all, r)
	}
	return all
}

// CheckName returns the reason to reject a metric's name, or Applied. A custom metric is a path
// segment and a subresource of the Kubernetes API, so "%", "?" and the names of other subresources
// are rejected (custom metrics API proposal, "Metric Names"). So is invalid UTF-8: JSON would
// rewrite it, and two names would look the same. So are control characters (C0, DEL, C1), which
// terminals interpret. "/" is allowed: readers write it as "\|".
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
	if strings.ContainsAny(name, "%?") || hasControl(name) || HasReservedSuffix(name) || !utf8.ValidString(name) {
		return BadName
	}
	return Applied
}

// CheckLabel returns the reason to reject a label, or Applied. Invalid UTF-8 is Malformed: JSON
// would rewrite it, and two labels would look the same. Control characters are BadName, as in
// names.
func CheckLabel(l Label) Reason {
	switch {
	case hasControl(l.Key), hasControl(l.Value):
		return BadName
	case !utf8.ValidString(l.Key), !utf8.ValidString(l.Value):
		return Malformed
	}
	return Applied
}

// hasControl reports whether text has a control character (C0, DEL, C1), which a terminal would
// interpret.
func hasControl(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		// U+0080 to U+009F are C2 80 to C2 9F. After C2, a lower byte is invalid UTF-8.
		if c < ' ' || c == 0x7f || c == 0xc2 && i+1 < len(text) && text[i+1] < 0xa0 {
			return true
		}
	}
	return false
}

// MaxNameLength bounds a metric's name, in bytes.
const MaxNameLength = 512
