package metric

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Query asks for one metric of one or many objects, or of a namespace's externals.
type Query struct {
	Resource   string // canonical group-resource; empty: external
	Namespace  string
	Object     string // the object's name; "*": all of them (unused for externals)
	Expression Expression

	// Match picks label sets before they are rolled up; nil takes all.
	MatchLabels func(Labels) bool
	// Known picks objects; nil takes all. The adapter answers label selectors with it, and leaves out the pods that
	// are gone: of two objects of one name and different UIDs it takes one at most.
	MatchObject func(Object) bool
	// Few and Gone are the List and the Gone of what picks the objects.
	ListObjects    func(most int) (objects iter.Seq[Object], n int, ok bool)
	RemovedObjects func(since uint64) (gone []Object, now uint64, ok bool)

	// Room is asked once, before anything is gathered, for room for an answer of up to so many points, and what was in it is lost: who
	// asks often can use it again. Its error is that of the query. nil: room is made.
	Reserve func(points int) ([]Point, error)

	// Kind, where it is not nil, is set to the kind of the series that answer; it stays as it is where there are none.
	Kind *Kind
}

// Pick picks objects of one kind.
type ObjectFilter struct {
	// Takes reports whether an object is picked; nil takes all.
	Match func(Object) bool
	// List lists all that are picked, each once and with its UID, in any order, and says how many they are. Not ok: they were not
	// listed, for more than so many would have to be looked at. nil: they cannot be listed.
	List func(most int) (objects iter.Seq[Object], n int, ok bool)
	// Gone lists the objects that Takes may have taken at the moment since and takes no more, and says which moment is now; what
	// was taken at a moment and is not in the list is taken still. Not ok: nobody knows any more. nil: nobody ever knew.
	Removed func(since uint64) (gone []Object, now uint64, ok bool)
}

// Point is one answer.
type Point struct {
	Object Object
	// Labels of an external series, or those that the merged ones share. Empty for objects.
	Labels Labels
	Value  Number
	// Time is when the newest sample arrived (last, total), or the window's end.
	Time time.Time
	// Window is what was asked for; 0 for values without one.
	Window time.Duration
}

// Listed is a metric that exists, for discovery.
type Discovered struct {
	Resource string // empty: external
	Name     string
	Kind     Kind
}

// Errors of a query. Test with errors.Is; the message is for the reader.
var (
	// ErrNotFound: no such series, or none that still lives, or nothing in its window.
	ErrNotFound = errors.New("not found")
	// ErrNotYet: the cluster has not told yet whether there is such a thing.
	ErrNotReady = errors.New("not known yet")
	// ErrAsked: a window that is not kept, or a stat that the kind does not have.
	ErrInvalidQuery = errors.New("cannot be asked")
)

// QueryError is one of them with its message.
type QueryError struct {
	Is      error
	Message string
}

func (e *QueryError) Error() string { return e.Message }

func (e *QueryError) Unwrap() error { return e.Is }

// NotFoundf makes an ErrNotFound.
func NotFoundf(format string, args ...any) error {
	return &QueryError{Is: ErrNotFound, Message: fmt.Sprintf(format, TruncateArgs(args)...)}
}

// NotYetf makes an ErrNotYet.
func NotReadyf(format string, args ...any) error {
	return &QueryError{Is: ErrNotReady, Message: fmt.Sprintf(format, TruncateArgs(args)...)}
}

// CannotAskf makes an ErrAsked.
func InvalidQueryf(format string, args ...any) error {
	return &QueryError{Is: ErrInvalidQuery, Message: fmt.Sprintf(format, TruncateArgs(args)...)}
}

// StatNames lists stats for a message.
func StatNames(stats []Stat) string {
	names := make([]string, len(stats))
	for i, s := range stats {
		names[i] = s.String()
	}
	return strings.Join(names, ", ")
}
