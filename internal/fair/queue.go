package fair

import "container/heap"

// Queue holds work for one goroutine, in the order in which each share brought it. The share whose work has cost least is
// next: one that brings much work, or work that costs much, delays that of another one by one item. The zero value is ready.
//
// The order is that of start-time fair queueing (Goyal, Vin, Cheng, 1996). A share that comes begins where the one that was
// served last stood, so it neither pays for the time before, nor is owed for it.
type Queue[K comparable, T any] struct {
	n     int
	begun int64 // what the share that was served last had cost then
	lines map[K]*line[K, T]
	order order[K, T]
}

// line is the work of one share. One without work stays until it is next: its cost is remembered as long as it counts.
type line[K comparable, T any] struct {
	share K
	items []T
	cost  int64 // of all its work
	since int64 // its turn among those that have cost as much
	place int   // in the order
}

// Len is the number of items that wait.
func (q *Queue[K, T]) Len() int { return q.n }

// Push adds an item.
func (q *Queue[K, T]) Push(share K, item T) {
	of := q.lines[share]
	if of == nil {
		if q.lines == nil {
			q.lines = map[K]*line[K, T]{}
		}
		of = &line[K, T]{share: share, cost: q.begun, since: q.order.turn()}
		q.lines[share] = of
		heap.Push(&q.order, of)
	} else if len(of.items) == 0 && of.cost < q.begun {
		of.cost = q.begun
		heap.Fix(&q.order, of.place)
	}
	of.items = append(of.items, item)
	q.n++
}

// Pop removes the next item; false: none waits. Charge says what it costs.
func (q *Queue[K, T]) Pop() (share K, item T, is bool) {
	for len(q.order.lines) > 0 {
		of := q.order.lines[0]
		q.begun = of.cost
		if len(of.items) == 0 {
			heap.Pop(&q.order)
			delete(q.lines, of.share)
			continue
		}
		item = of.items[0]
		of.items = of.items[1:]
		q.n--
		return of.share, item, true
	}
	return share, item, false
}

// Charge counts what the share's last item has cost.
func (q *Queue[K, T]) Charge(share K, cost int64) {
	if of := q.lines[share]; of != nil {
		of.cost += cost
		of.since = q.order.turn()
		heap.Fix(&q.order, of.place)
	}
}

// order is a heap of lines (container/heap).
type order[K comparable, T any] struct {
	lines []*line[K, T]
	turns int64
}

func (o *order[K, T]) turn() int64 { o.turns++; return o.turns }

func (o *order[K, T]) Len() int { return len(o.lines) }

func (o *order[K, T]) Less(i, j int) bool {
	a, b := o.lines[i], o.lines[j]
	return a.cost < b.cost || a.cost == b.cost && a.since < b.since
}

func (o *order[K, T]) Swap(i, j int) {
	o.lines[i], o.lines[j] = o.lines[j], o.lines[i]
	o.lines[i].place, o.lines[j].place = i, j
}

func (o *order[K, T]) Push(one any) {
	of := one.(*line[K, T])
	of.place = len(o.lines)
	o.lines = append(o.lines, of)
}

func (o *order[K, T]) Pop() any {
	last := len(o.lines) - 1
	of := o.lines[last]
	o.lines[last] = nil
	o.lines = o.lines[:last]
	return of
}
