package agents

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agent"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// A server asks the agent of a node for points, also several at a time; of a node without an agent there are none, and a
// reader who goes does not wait.
func TestPointsOfAgents(t *testing.T) {
	used, began := 0, time.Now().Truncate(10*time.Second)
	source := agent.UsageSource{Interval: time.Millisecond, Read: func(context.Context) (*metric.UsagePage, error) {
		used++
		at := began.Add(time.Duration(used) * time.Second)
		r := metric.UsageReading{CPU: time.Duration(used) * time.Second / 2, CPUAt: at, Memory: 1000, MemoryAt: at}
		return &metric.UsagePage{Step: 10 * time.Second, Readings: map[metric.Container]metric.UsageReading{{}: r,
			{Namespace: "shop", Pod: "web-0", Name: "web"}: r}}, nil
	}}
	told := &reported{}
	parts := told.parts()
	server := serve(t, "127.0.0.1:0", parts)
	defer tellsTo(t, server, source)()
	told.await(t, " web-0 ", 0)

	query := &usage.PointsQuery{Namespace: "shop", Until: began.Add(1000 * time.Hour), Step: 10 * time.Second, Count: 1}
	answers := make(chan error)
	for range 10 {
		go func() {
			all, err := server.Points(t.Context(), "a", query)
			if err == nil && (len(all) != 1 || all[0].Container.Pod != "web-0" || len(all[0].Points) != 1 || all[0].Points[0].CPU != 0.5 ||
				all[0].Points[0].Length != 10*time.Second || all[0].Points[0].Memory != 1000) {
				t.Errorf("the points are %+v", all)
			}
			answers <- err
		}()
	}
	for range 10 {
		must(t, <-answers)
	}
	if _, err := server.Points(t.Context(), "b", query); !errors.Is(err, ErrNoAgent) {
		t.Errorf("a node without an agent: %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := server.Points(gone, "a", query); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a reader who has gone: %v", err)
	}
}

// An agent that does not answer has some questions, and no more; those of readers who have gone make room.
func TestPointsThatDoNotCome(t *testing.T) {
	s := serve(t, "127.0.0.1:0", newTable().parts())
	c := s.dial(context.Background())
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Node: "a", Run: 7, KeepsUsage: true}}})
	c.next(func(m *agentwire.FromServer) bool { return m.GetWelcome() != nil })
	asked := func() uint64 {
		return c.next(func(m *agentwire.FromServer) bool { return m.GetPointsQuestion() != nil }).GetPointsQuestion().Number
	}
	answer := func(number uint64) {
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Points{Points: &agentwire.Points{Number: number}}})
	}
	ctx, leave := context.WithCancel(t.Context())
	answers := make(chan error, maxQuestions)
	query := &usage.PointsQuery{Until: time.Now(), Step: time.Minute}
	for range maxQuestions {
		go func() {
			_, err := s.Points(ctx, "a", query)
			answers <- err
		}()
		asked()
	}
	if _, err := s.Points(t.Context(), "a", query); !errors.Is(err, ErrBusy) {
		t.Errorf("a question too many: %v", err)
	}
	leave()
	for range maxQuestions {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("a reader who has gone: %v", err)
		}
	}
	go func() {
		_, err := s.Points(t.Context(), "a", query)
		answers <- err
	}()
	number := asked()
	answer(number + 1) // of no question
	answer(number)
	must(t, <-answers)
}
