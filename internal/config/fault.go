package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Field is the Go name of a field of a Config, as in "MaxSeries"; of a nested one, the path to it,
// as in "Listeners[1].Address".
type Field string

// Fault is one invalid field. Its text continues the field's name: "is 0; must be at least 1".
type Fault struct {
	Field  Field
	format string
	args   []any
}

// NewFault makes a fault. Arguments of type Field are other fields of the same Config, which are
// rendered by name as the faulty one is.
func NewFault(field Field, format string, args ...any) *Fault {
	return &Fault{field, format, args}
}

// Error names fields by their Go names.
func (f *Fault) Error() string {
	return string(f.Field) + " " + f.Text(func(field Field) string { return string(field) })
}

// Text is the fault without its field; name renders the other fields in it.
func (f *Fault) Text(name func(Field) string) string { return f.formatted(name).Error() }

// Unwrap returns the error that the text was formatted from with %w, if any.
func (f *Fault) Unwrap() error {
	return errors.Unwrap(f.formatted(func(field Field) string { return string(field) }))
}

func (f *Fault) formatted(name func(Field) string) error {
	args := make([]any, len(f.args))
	for i, arg := range f.args {
		if field, ok := arg.(Field); ok {
			arg = name(field)
		}
		args[i] = arg
	}
	return fmt.Errorf(f.format, args...)
}

// Faults collects the faults of one Config.
type Faults []error

// Add appends the fault of one field.
func (f *Faults) Add(field Field, format string, args ...any) {
	*f = append(*f, NewFault(field, format, args...))
}

// AddNested appends the faults of a Config inside of this one; path leads to it, as in "Pending.".
func (f *Faults) AddNested(path Field, err error) {
	for _, nested := range Split(err) {
		var fault *Fault
		if !errors.As(nested, &fault) {
			*f = append(*f, nested)
			continue
		}
		args := make([]any, len(fault.args))
		for i, arg := range fault.args {
			if field, ok := arg.(Field); ok {
				arg = path + field
			}
			args[i] = arg
		}
		f.Add(path+fault.Field, fault.format, args...)
	}
}

// Join returns all faults as one error, nil if there are none.
func (f Faults) Join() error { return errors.Join(f...) }

// Split takes joined errors apart, at every depth. An error that adds text to those it joins stays
// whole.
func Split(errs ...error) []error {
	var all []error
	for _, err := range errs {
		if err == nil {
			continue
		}
		joined, ok := err.(interface{ Unwrap() []error })
		if ok && err.Error() == errors.Join(joined.Unwrap()...).Error() {
			all = append(all, Split(joined.Unwrap()...)...)
			continue
		}
		all = append(all, err)
	}
	return all
}

// AddUnlessHostPort appends a fault where address is not host:port with a numeric port; example is
// an address that would be right.
func (f *Faults) AddUnlessHostPort(field Field, address, example string) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		f.Add(field, "is %q; must be host:port, as in %s", address, example)
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		f.Add(field, "is %q; its port must be a number from 0 to 65535, as in %s", address, example)
	}
}

// Bytes is a number of bytes, printed in the largest unit that keeps it whole: "256MiB".
type Bytes uint64

func (b Bytes) String() string {
	for _, unit := range []struct {
		suffix string
		bytes  Bytes
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if b >= unit.bytes && b%unit.bytes == 0 {
			return strconv.FormatUint(uint64(b/unit.bytes), 10) + unit.suffix
		}
	}
	return strconv.FormatUint(uint64(b), 10)
}
