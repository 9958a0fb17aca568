package agentwire

import (
	"math"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
)

// NewUsage is the message of what a node and its containers use.
func NewUsage(number uint64, records []usage.Record) *Usage {
	message := &Usage{Number: number, Containers: make([]*ContainerUsage, len(records))}
	for i := range records {
		r := &records[i]
		c := &ContainerUsage{Namespace: r.Container.Namespace, Pod: r.Container.Pod, Container: r.Container.Name,
			Cpu: newResource(&r.CPU), Memory: newResource(&r.Memory), State: uint32(r.Newest.State), CpuNanocores: r.Newest.CPU,
			MemoryBytes: r.Newest.Memory, EndNanos: unixNanos(r.Newest.End), WindowNanos: int64(r.Newest.Window), StartedNanos: unixNanos(r.Started)}
		if !r.Since.IsZero() {
			c.SinceMillis = r.Since.UnixMilli()
		}
		message.Containers[i] = c
	}
	return message
}

// NewSeconds is the message of what containers used in the newest second.
func NewSeconds(number uint64, s *usage.Seconds) *Seconds {
	if s == nil {
		return nil
	}
	message := &Seconds{Number: number, AtMillis: s.At.UnixMilli()}
	for _, v := range s.Values {
		message.Cores, message.Bytes = append(message.Cores, v.CPU), append(message.Bytes, v.Memory)
	}
	return message
}

// Newest is what the message says; nil: nothing.
func (s *Seconds) Newest() *usage.Seconds {
	if s == nil || len(s.Cores) != len(s.Bytes) {
		return nil
	}
	newest := &usage.Seconds{At: time.UnixMilli(s.AtMillis), Values: make([]usage.Second, len(s.Cores))}
	for i := range newest.Values {
		newest.Values[i] = usage.Second{CPU: known(s.Cores[i]), Memory: known(s.Bytes[i])}
	}
	return newest
}

// known is a number, or one that is not known.
func known(v float32) float32 {
	if v >= 0 && v <= math.MaxFloat32 {
		return v
	}
	return -1
}

func unixNanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func newResource(u *usage.Usage) *ResourceUsage {
	if u.End.IsZero() {
		return nil
	}
	r := &ResourceUsage{EndMillis: u.End.UnixMilli()}
	for _, w := range u.Windows {
		r.Values = append(r.Values, float32(w.Mean), float32(w.Max), float32(w.NinetyFive))
		r.CoveredMillis = append(r.CoveredMillis, uint32(w.Covered.Milliseconds()))
	}
	return r
}

// Records are what the message says.
func (u *Usage) Records() []usage.Record {
	records := make([]usage.Record, 0, len(u.Containers))
	for _, c := range u.Containers {
		r := usage.Record{
			Container: metric.Container{Namespace: c.Namespace, Pod: c.Pod, Name: c.Container},
			CPU:       c.Cpu.usage(), Memory: c.Memory.usage(),
			Newest: usage.Newest{State: usage.State(min(c.State, uint32(usage.Zero))), CPU: c.CpuNanocores, Memory: c.MemoryBytes,
				End: moment(c.EndNanos), Window: time.Duration(c.WindowNanos)},
			Started: moment(c.StartedNanos),
		}
		if c.SinceMillis != 0 {
			r.Since = time.UnixMilli(c.SinceMillis)
		}
		records = append(records, r)
	}
	return records
}

// NewPointsQuestion is the message of a query.
func NewPointsQuestion(number uint64, q *usage.PointsQuery) *PointsQuestion {
	return &PointsQuestion{Number: number, Node: q.Node, Namespace: q.Namespace, Pod: q.Pod, AfterMillis: q.After.UnixMilli(),
		UntilMillis: q.Until.UnixMilli(), StepMillis: q.Step.Milliseconds(), Count: uint32(q.Count)}
}

// Query is the query that the message asks.
func (q *PointsQuestion) Query() *usage.PointsQuery {
	return &usage.PointsQuery{Node: q.Node, Namespace: q.Namespace, Pod: q.Pod, After: time.UnixMilli(q.AfterMillis),
		Until: time.UnixMilli(q.UntilMillis), Step: time.Duration(q.StepMillis) * time.Millisecond, Count: int(q.Count)}
}

// NewPoints answers a question of a number.
func NewPoints(number uint64, all []usage.ContainerPoints, tooMany bool) *Points {
	message := &Points{Number: number, TooMany: tooMany}
	for _, of := range all {
		c := &ContainerPoints{Namespace: of.Container.Namespace, Pod: of.Container.Pod, Container: of.Container.Name}
		for _, p := range of.Points {
			c.EndMillis, c.LengthMillis = append(c.EndMillis, p.End.UnixMilli()), append(c.LengthMillis, uint32(p.Length.Milliseconds()))
			c.Cores, c.Bytes = append(c.Cores, float32(p.CPU)), append(c.Bytes, float32(p.Memory))
		}
		message.Containers = append(message.Containers, c)
	}
	return message
}

// All are the points of the message. Those of a container whose numbers do not fit each other are left out.
func (m *Points) All() (all []usage.ContainerPoints, err error) {
	if m.TooMany {
		return nil, usage.ErrTooManyPoints
	}
	for _, c := range m.Containers {
		n := len(c.EndMillis)
		if len(c.LengthMillis) != n || len(c.Cores) != n || len(c.Bytes) != n {
			continue
		}
		of := usage.ContainerPoints{Container: metric.Container{Namespace: c.Namespace, Pod: c.Pod, Name: c.Container}, Points: make([]usage.Used, 0, n)}
		for i, end := range c.EndMillis {
			if cpu, memory := known(c.Cores[i]), known(c.Bytes[i]); cpu >= 0 && memory >= 0 {
				of.Points = append(of.Points, usage.Used{End: time.UnixMilli(end), Length: time.Duration(c.LengthMillis[i]) * time.Millisecond,
					CPU: float64(cpu), Memory: float64(memory)})
			}
		}
		all = append(all, of)
	}
	return all, nil
}

func moment(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

func (r *ResourceUsage) usage() (u usage.Usage) {
	if r == nil || len(r.Values) != 3*int(usage.Windows) || len(r.CoveredMillis) != int(usage.Windows) {
		return u
	}
	u.End = time.UnixMilli(r.EndMillis)
	for w := range u.Windows {
		u.Windows[w] = usage.Derived{Mean: float64(r.Values[3*w]), Max: float64(r.Values[3*w+1]), NinetyFive: float64(r.Values[3*w+2]),
			Covered: time.Duration(r.CoveredMillis[w]) * time.Millisecond}
	}
	return u
}
