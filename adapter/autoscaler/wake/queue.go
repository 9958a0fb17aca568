package wake

// queue holds items that wait for an attempt. Namespaces take turns, so one with a thousand autoscalers
// doesn't keep the others waiting.
type queue[T interface{ namespace() string }] struct {
	turns   []string // namespaces that wait
	waiting map[string][]T
}

func newQueue[T interface{ namespace() string }]() queue[T] {
	return queue[T]{waiting: map[string][]T{}}
}

func (q *queue[T]) push(item T) {
	namespace := item.namespace()
	if len(q.waiting[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], item)
}

// waits reports whether an item waits.
func (q *queue[T]) waits() bool { return len(q.turns) > 0 }

// pop returns the next item; false: none waits.
func (q *queue[T]) pop() (item T, is bool) {
	if len(q.turns) == 0 {
		return item, false
	}
	namespace := q.turns[0]
	item, left := q.waiting[namespace][0], q.waiting[namespace][1:]
	q.turns = q.turns[1:]
	if len(left) == 0 {
		delete(q.waiting, namespace)
		return item, true
	}
	q.waiting[namespace], q.turns = left, append(q.turns, namespace)
	return item, true
}
