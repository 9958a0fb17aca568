package wake

// queue holds autoscalers whose targets are to be woken. Namespaces take turns, so one with a thousand
// autoscalers doesn't keep the others waiting.
type queue struct {
	turns   []string // namespaces that wait
	waiting map[string][]*armed
}

func newQueue() queue { return queue{waiting: map[string][]*armed{}} }

func (q *queue) push(one *armed) {
	namespace := one.key.namespace
	if len(q.waiting[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], one)
}

// pop returns the next autoscaler; nil: none waits.
func (q *queue) pop() *armed {
	if len(q.turns) == 0 {
		return nil
	}
	namespace := q.turns[0]
	one, left := q.waiting[namespace][0], q.waiting[namespace][1:]
	q.turns = q.turns[1:]
	if len(left) == 0 {
		delete(q.waiting, namespace)
		return one
	}
	q.waiting[namespace], q.turns = left, append(q.turns, namespace)
	return one
}
