package agent

import (
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// An agent says nothing before its windows are complete, because that replaces what the node's former agent said. With the
// history of that one, the first page is enough.
func TestTheFirstReport(t *testing.T) {
	began := time.Unix(1_790_000_000, 0)
	web := metric.Container{Namespace: "shop", Pod: "web-0", Name: "web"}
	read := func(u *Usage, at time.Time) {
		page := &metric.UsagePage{Readings: map[metric.Container]metric.UsageReading{
			web: {Started: began.Add(-time.Hour), CPU: at.Sub(began) + time.Hour, CPUAt: at, Memory: 1 << 20, MemoryAt: at}}}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.takeLocked(page, at)
	}
	says := func(u *Usage) bool { message, _ := u.newest(0); return message != nil }
	former, next := NewUsage(UsageSource{}, slog.New(slog.DiscardHandler)), NewUsage(UsageSource{}, slog.New(slog.DiscardHandler))
	read(former, began)
	if says(former) {
		t.Error("a measurement is told that is no usage yet")
	}
	read(former, began.Add(10*time.Second))
	if !says(former) {
		t.Error("the second measurement is not told")
	}
	former.EndMeasuring()
	if err := next.take(former.next()); err != nil {
		t.Fatal(err)
	}
	read(next, began.Add(20*time.Second))
	if !says(next) || next.message.Records()[0].Newest.CPU != 1e9 {
		t.Errorf("the first measurement after the hand-over is told as %v", next.message)
	}
}
