package command

import (
	"errors"

	"github.com/sluice-metrics/sluice/internal/config"
)

// usageFaults is everything wrong with a command line, one error a line.
type usageFaults struct{ faults []error }

func (u *usageFaults) Error() string { return errors.Join(u.faults...).Error() }

func (u *usageFaults) Unwrap() []error { return u.faults }

// Usage joins errors into a usageFaults; nil if there are none.
func Usage(errs ...error) error {
	if faults := config.Split(errs...); len(faults) > 0 {
		return &usageFaults{faults}
	}
	return nil
}
