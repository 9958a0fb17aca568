package loadtest

import (
	"context"
	"errors"
	"fmt"
)

// interruption is the error of a scenario whose context was canceled.
type interruption struct {
	finished, of int
	besides      error // errors while the run was ended; nil: none
}

func (i *interruption) Error() string {
	text := fmt.Sprintf("interrupted: %d of %d runs were finished", i.finished, i.of)
	if i.besides != nil {
		text += "\n" + i.besides.Error()
	}
	return text
}

// Unwrap makes errors.Is(err, context.Canceled) true.
func (i *interruption) Unwrap() []error { return []error{context.Canceled, i.besides} }

// besidesTheEnd returns the part of an error that does not come from the end of the context.
func besidesTheEnd(err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	switch err := err.(type) {
	case interface{ Unwrap() []error }:
		var rest []error
		for _, one := range err.Unwrap() {
			rest = append(rest, besidesTheEnd(one))
		}
		return errors.Join(rest...)
	case interface{ Unwrap() error }:
		return besidesTheEnd(err.Unwrap())
	}
	return nil
}
