package rule

import (
	"errors"
	"fmt"
	"strings"
)

// mostFaults is the number of faults that an error names.
const mostFaults = 10

// joinFaults joins faults, one a line: the first ones, and how many more there are.
func joinFaults(faults []error) error {
	if more := len(faults) - mostFaults; more > 0 {
		faults = append(faults[:mostFaults:mostFaults], fmt.Errorf("and %d more", more))
	}
	return errors.Join(faults...)
}

// oneLine is an error of several lines in one.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Faults joins the faults of all rules, for files; nil: there are none. It names the first ones, and
// those of too many rules once for each namespace.
func (s *Set) Faults() error {
	var faults []error
	tooMany := map[string]int{}
	for _, v := range s.Verdicts() {
		if v.Reason == TooMany {
			tooMany[v.Document.Namespace]++
		}
	}
	for _, v := range s.Verdicts() {
		in := v.Document.Namespace
		switch more := tooMany[in] - 1; {
		case v.Fault == "":
		case v.Reason != TooMany || more == 0:
			faults = append(faults, fmt.Errorf("%s: %s", v.Document, v.Fault))
		case more > 0:
			faults = append(faults, fmt.Errorf("%s and %d more rules: %s", v.Document, more, v.Fault))
			delete(tooMany, in)
		}
	}
	return joinFaults(faults)
}
