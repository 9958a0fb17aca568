package wake

import "github.com/sluice-metrics/sluice/internal/fair"

const (
	// mostInFlight bounds the attempts that wait for an answer, mostOfOne those of one namespace: where its admission
	// webhook hangs, each takes patience.
	mostInFlight = 16
	mostOfOne    = 8
)

// line holds the attempts that are to begin. Namespaces take turns, and no more than mostOfOne of each are in the
// queue and in flight: further ones are held, so any that is next may begin. It belongs to Run.
type line[T any] struct {
	queue fair.Queue[string, T]
	begun fair.Shares[string, int] // in the queue and in flight
	held  map[string][]T           // by namespace, in the order in which they came
}

func newLine[T any]() line[T] { return line[T]{held: map[string][]T{}} }

// push adds an attempt.
func (l *line[T]) push(namespace string, attempt T) {
	if l.begun.Of(namespace) == mostOfOne {
		l.held[namespace] = append(l.held[namespace], attempt)
		return
	}
	l.begun.Add(namespace, 1)
	l.queue.Push(namespace, attempt)
}

// waits reports whether an attempt is next.
func (l *line[T]) waits() bool { return l.queue.Len() > 0 }

// next removes the attempt that is next, whose end calls done; false: none waits.
func (l *line[T]) next() (attempt T, is bool) {
	namespace, attempt, is := l.queue.Pop()
	l.queue.Charge(namespace, 1)
	return attempt, is
}

// done ends an attempt of a namespace, which may have another one then.
func (l *line[T]) done(namespace string) {
	l.begun.Add(namespace, -1)
	held := l.held[namespace]
	if len(held) == 0 {
		return
	}
	if l.held[namespace] = held[1:]; len(held) == 1 {
		delete(l.held, namespace)
	}
	l.push(namespace, held[0])
}
