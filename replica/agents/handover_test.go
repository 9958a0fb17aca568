package agents

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agent"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
)

// A part of a history is bounded, and so are the parts that wait for an agent that does not take them.
func TestHistoriesAreBounded(t *testing.T) {
	s := serve(t, "127.0.0.1:0", newTable().parts())
	part := func(bytes int) *agentwire.FromAgent {
		return &agentwire.FromAgent{Message: &agentwire.FromAgent_History{History: &agentwire.History{Containers: []*agentwire.ContainerHistory{{Cpu: make([]byte, bytes)}}}}}
	}
	next, _ := s.hello(1)
	former, _ := s.hello(2)
	taken := 0
	for range 40 { // next reads nothing, so its window fills
		former.send(part(1 << 20))
		answer := former.next(func(a *agentwire.FromServer) bool { return a.GetHistoryTaken() != nil })
		if !answer.GetHistoryTaken().Taken {
			break
		}
		taken++
	}
	if taken < maxHistories || taken > maxHistories+8 {
		t.Errorf("%d parts of 1 MiB wait", taken)
	}
	former.send(part(maxHistory))
	former.fails(codes.InvalidArgument, "a part of a history")
	_ = next
}

// The node's next agent goes on with the histories of the former one, whichever server each reports to: its windows
// of usage begin when the former one's did. From the signal to stop on, the former one says no more what is used.
func TestHistoriesAreHandedOver(t *testing.T) {
	for range 2 { // an agent chooses a server at random
		told := make(chan usage.Record, 1000)
		var addresses []string
		for i := range 2 {
			parts := newTable().parts()
			parts.Name, parts.Epoch = string(rune('a'+i)), uint64(i+1)
			parts.Usage = func(_ string, report usage.Report) []Renewal {
				told <- report.Records[0]
				return nil
			}
			addresses = append(addresses, serve(t, "127.0.0.1:0", parts).Addr().String())
		}
		began := time.Now().Add(-3 * time.Hour)
		start := func(server string, until time.Time) (*agent.Usage, func()) {
			_, link := newLink(t, server)
			at := began
			read := func(context.Context) (*metric.UsagePage, error) { // a measurement of each minute, and one of now
				if at = at.Add(time.Minute); at.After(until) || until.IsZero() {
					at = time.Now()
				}
				use := metric.UsageReading{Started: began, CPUAt: at, MemoryAt: at, CPU: at.Sub(began) / 2, Memory: 1000}
				return &metric.UsagePage{Readings: map[metric.Container]metric.UsageReading{{}: use}}, nil
			}
			used := agent.NewUsage(agent.UsageSource{Read: read, Interval: time.Millisecond}, slog.New(slog.DiscardHandler))
			link.Tell(used)
			ctx, end := context.WithCancel(context.Background())
			done := make(chan error, 2)
			go func() { done <- used.Run(ctx) }()
			go func() { done <- link.Run(ctx) }()
			return used, func() {
				end()
				for range 2 {
					must(t, <-done)
				}
			}
		}
		covered := func(want time.Duration) {
			for r := range told {
				if r.CPU.Windows[usage.Day].Covered > want {
					return
				}
			}
		}
		former, endFormer := start(addresses[0]+","+addresses[1], time.Now())
		covered(2 * time.Hour)
		_, endNext := start(addresses[1], time.Time{})
		former.EndMeasuring()
		time.Sleep(50 * time.Millisecond)
		for len(told) > 0 {
			<-told
		}
		covered(2 * time.Hour) // it can only be the next one's
		endFormer()
		endNext()
	}
}
