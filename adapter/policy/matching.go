package policy

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	// maxLine bounds the names of a namespace that are matched or wait for that: they are fewer
	// than the requests that one client of the metrics APIs may have in flight, and than the
	// workers of HTTP push.
	maxLine = 32
	// patience bounds a wait for the other names of the namespace.
	patience = time.Second
	// A namespace has one of so many parts of a processor's time. If it owes as much as maxDebt, no
	// name is matched in it.
	parts   = 10
	maxDebt = time.Second
	// slice is how long names of one namespace are matched while others wait, and longestSlice how
	// long a match with one expression can take. Beyond that, other processes had the processor.
	slice        = time.Millisecond
	longestSlice = 20 * time.Millisecond
)

// matching gives turns to the matches of new names, so that expressions take one processor at most.
// The shares are the namespaces in which names are asked for. New names, or slow expressions, of one
// namespace delay a reader of another one by a slice, and a reader of the same one by patience.
type matching struct {
	names       *fair.Turns[string] // one name of each namespace
	expressions *fair.Turns[string] // one of all

	mu    sync.Mutex // guards the rest
	line  fair.Shares[string, int]
	debts fair.Debts[string, time.Duration]
	paid  time.Time // until when debts are paid
}

func newMatching() *matching {
	return &matching{names: fair.NewTurns[string](math.MaxInt, 1), expressions: fair.NewTurns[string](1, 1)}
}

// turn is the right to match one name. One goroutine uses it.
type turn struct {
	of        *matching
	namespace string
	began     time.Time // of the slice
}

// begin waits for the turn of a namespace. The error is metric.ErrNotReady: too many names wait, or
// the namespace has had its part of the time.
func (m *matching) begin(namespace string) (*turn, error) {
	if !m.enter(namespace) {
		return nil, undecided(namespace)
	}
	if m.names.AwaitFor(context.Background(), patience, namespace) != nil {
		m.leave(namespace)
		return nil, undecided(namespace)
	}
	if m.owes(namespace) {
		m.names.Give(namespace)
		m.leave(namespace)
		return nil, undecided(namespace)
	}
	t := &turn{of: m, namespace: namespace}
	t.resume()
	return t, nil
}

func undecided(namespace string) error {
	return metric.NotReadyf("the policies of external metrics have not decided about this name yet: in the namespace %q many new names "+
		"are asked for, or expressions of policies are slow; retry later", namespace)
}

func (m *matching) enter(namespace string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.line.Of(namespace) >= maxLine {
		return false
	}
	m.line.Add(namespace, 1)
	return true
}

func (m *matching) leave(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.line.Add(namespace, -1)
}

// owes reports whether a namespace has had more than its part of the time.
func (m *matching) owes(namespace string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.debts.Pay(now.Sub(m.paid) / parts)
	m.paid = now
	return m.debts.Of(namespace) >= maxDebt
}

func (m *matching) charge(namespace string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.debts.Add(namespace, min(took, longestSlice))
}

// yield lets the names of other namespaces have their turn, once each slice.
func (t *turn) yield() {
	if time.Since(t.began) >= slice {
		t.pause()
		t.resume()
	}
}

func (t *turn) end() {
	t.pause()
	t.of.names.Give(t.namespace)
	t.of.leave(t.namespace)
}

// resume waits for a slice of each other namespace at most.
func (t *turn) resume() {
	_ = t.of.expressions.Await(context.Background(), t.namespace) // which never ends
	t.began = time.Now()
}

func (t *turn) pause() {
	t.of.charge(t.namespace, time.Since(t.began))
	t.of.expressions.Give(t.namespace)
}
