package loadtest

import (
	"context"
	"errors"
	"fmt"
)

// interruption is the end of a scenario by its context.
type interruption struct {
	finished, of int
	besides      error // what went wrong when it was ended; nil: nothing
}

func (i *interruption) Error() string {
	text := fmt.Sprintf("interrupted: %d of %d runs were finished", i.finished, i.of)
	if i.besides != nil {
		text += "\n" + i.besides.Error()
	}
	return text
}

// Unwrap makes it an end of the context.
func (i *interruption) Unwrap() []error { return []error{context.Canceled, i.besides} }

// besidesTheEnd is the part of an error that does not come from the end of the context.
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
