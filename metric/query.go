package metric

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// AllObjects is the name that stands for all objects of a resource.
const AllObjects = "*"

// Query selects one metric of one or many objects, or of a namespace's externals.
type Query struct {
	Resource   string // canonical group-resource; empty: external
	Namespace  string
	Object     string // the object's name; AllObjects: all of them (unused for externals)
	Expression Expression

	// MatchLabels selects label sets before they are rolled up; nil selects all.
	MatchLabels func(Labels) bool
	// RequiredLabels are the labels that MatchLabels requires, if it requires nothing else: a
	// deletion is told to other replicas with them. They are borrowed until the query is answered.
	RequiredLabels []Label
	// MatchObject selects objects; nil selects all. The adapter uses it for label selectors, and to
	// leave out pods that no longer exist: of two objects of one name and different UIDs it selects
	// at most one.
	MatchObject func(Object) bool
	// ListObjects and RemovedObjects are List and Removed of the ObjectFilter that selects the
	// objects.
	ListObjects    func(limit int) (objects iter.Seq[Object], n int, ok bool)
	RemovedObjects func(since uint64) (gone []Object, now uint64, ok bool)
	// ReadyPods is ReadyPods of the ObjectFilter that selects the objects. Package reading uses it.
	ReadyPods func() (ready iter.Seq2[Object, Workload], live int)

	// RollUp, if not nil, makes all selected objects read as one.
	RollUp *RollUp

	// Reserve is called before points are gathered, with an upper bound of their number; again if another
	// source is asked, because the first one has nothing. It returns a buffer, whose content is overwritten,
	// so that a frequent reader can reuse it. An error of Reserve is the query's error. Nil: the buffer is
	// allocated.
	Reserve func(points int) ([]Point, error)

	// MayRead returns an error if the reader of an answer may not read another metric of the same
	// objects, of which the answer is computed. selector selects its label sets, beside the query's
	// own; empty: all. Nil: the reader may read all.
	MayRead func(expression, selector string) error

	// Kind, if not nil, is set to the kind of the series that answer. It is unchanged if there are
	// none.
	Kind *Kind
}

// ObjectFilter selects objects of one resource.
type ObjectFilter struct {
	// Match reports whether an object is selected; nil selects all.
	Match func(Object) bool
	// List yields the selected objects in any order, each once and with its UID, and returns their
	// number. It returns false if it would have to look at more than limit objects. Nil: listing is
	// unsupported.
	List func(limit int) (objects iter.Seq[Object], n int, ok bool)
	// Removed lists the objects that Match may have selected at the moment since and no longer
	// selects, and returns the current moment. An object that was selected at that moment and is
	// not in the list is still selected. It returns false if the history does not reach back so
	// far. Nil: unsupported.
	Removed func(since uint64) (gone []Object, now uint64, ok bool)
	// ReadyPods yields the selected pods that are ready and have a controller, with their
	// workloads, in any order, and returns the number of selected pods, ready or not. Nil: all pods
	// of the namespace are selected, or the objects are no pods.
	ReadyPods func() (ready iter.Seq2[Object, Workload], live int)
}

// Point is one value of an answer.
type Point struct {
	Object Object
	// Labels of an external series, or the labels that merged series have in common. Empty for
	// objects.
	Labels Labels
	Value  Number
	// Time is the arrival of the newest sample (last, total), or the end of the window.
	Time time.Time
	// Window is the evaluated window; 0 for stats without one.
	Window time.Duration
	// Pods are those of a roll-up; zero: the point is no roll-up.
	Pods PodCount
}

// Discovered is an existing metric, for API discovery.
type Discovered struct {
	Resource string // empty: external
	Name     string
	Kind     Kind
}

// Errors of a query, for errors.Is; the message is for the reader.
var (
	// ErrNotFound: there is no such series, or it has expired; ErrIdle and ErrUnknown are errors of this kind too.
	ErrNotFound = errors.New("not found")
	// ErrIdle: there are such series, and nothing was observed in the window, so there is no mean of it.
	ErrIdle = fmt.Errorf("idle: %w", ErrNotFound)
	// ErrUnknown: there are such series, or operands of a rule, and their value does not follow from what is known.
	ErrUnknown = fmt.Errorf("unknown: %w", ErrNotFound)
	// ErrNotReady: the cluster view does not know yet whether the object exists.
	ErrNotReady = errors.New("not known yet")
	// ErrInvalidQuery: the window is not kept, or the stat is not legal for the kind.
	ErrInvalidQuery = errors.New("cannot be asked")
	// ErrForbidden: a policy doesn't let this reader ask.
	ErrForbidden = errors.New("forbidden")
)

// QueryError adds a message to one of the errors above.
type QueryError struct {
	Is      error
	Message string
}

func (e *QueryError) Error() string { return e.Message }

func (e *QueryError) Unwrap() error { return e.Is }

func NotFoundf(format string, args ...any) error {
	return &QueryError{Is: ErrNotFound, Message: fmt.Sprintf(format, TruncateArgs(args)...)}
}

func Idlef(format string, args ...any) error {
	return &QueryError{Is: ErrIdle, Message: fmt.Sprintf(format, TruncateArgs(args)...)}
}

func Unknownf(format string, args ...any) error {
	return &QueryError{Is: ErrUnknown, Message: fmt.Sprintf(format, TruncateArgs(args)...)}
}

// Absent reports whether an error says that there are no such series.
func Absent(err error) bool {
	return errors.Is(err, ErrNotFound) && !errors.Is(err, ErrIdle) && !errors.Is(err, ErrUnknown)
}

func NotReadyf(format string, args ...any) error {
	return &QueryError{Is: ErrNotReady, Message: fmt.Sprintf(format, TruncateArgs(args)...)}
}

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

// MaxSelectorValue is the length in bytes of the longest label value in Kubernetes.
const MaxSelectorValue = 63

// SelectorValue is the form in which a label's value is written in a Kubernetes selector. Each byte
// that a Kubernetes label value must not have becomes "_"; leading and trailing bytes that are
// neither letter nor digit are dropped. A value that Kubernetes allows stays as it is.
func SelectorValue(value string) string {
	var room [MaxSelectorValue]byte
	if form := AppendSelectorValue(room[:0], value); string(form) != value {
		return string(form)
	}
	return value
}

// AppendSelectorValue appends the SelectorValue: MaxSelectorValue bytes at most.
func AppendSelectorValue(dst []byte, value string) []byte {
	start, empty := 0, len(dst)
	for start < len(value) && !alphanumeric(value[start]) {
		start++
	}
	for i := start; i < min(len(value), start+MaxSelectorValue); i++ {
		if c := value[i]; inSelectorValue(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '_')
		}
	}
	for len(dst) > empty && !alphanumeric(dst[len(dst)-1]) {
		dst = dst[:len(dst)-1]
	}
	return dst
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func inSelectorValue(c byte) bool { return alphanumeric(c) || c == '-' || c == '_' || c == '.' }

// Selectable returns a function for the value of the label that a selector's key selects, in the
// form in which a selector has the value. A key that selector syntax cannot express is found by its
// SelectorValue, unless another key has that name. The labels are brought into their forms once,
// with the first key.
func (l Labels) Selectable() func(key string) (string, bool) {
	var forms map[string]string
	return func(key string) (string, bool) {
		if forms == nil {
			forms = l.forms()
		}
		value, ok := forms[key]
		return value, ok
	}
}

// forms are the values as selectors have them, by each key that selects them.
func (l Labels) forms() map[string]string {
	forms := make(map[string]string, l.Len())
	for k, v := range l.All() {
		forms[k] = SelectorValue(v)
	}
	for k, v := range l.All() {
		form := SelectorValue(k)
		if _, taken := forms[form]; !taken { // by that very name, or the first of several keys
			forms[form] = SelectorValue(v)
		}
	}
	return forms
}
