package inspect

import (
	"testing"
	"time"
)

// LAST HEARD is a span where the last sign of a sender isn't known better.
func TestLastHeard(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		last, maybe time.Duration // ago; 0: unknown
		want        string
	}{
		{12 * time.Minute, 0, "12m"}, {12 * time.Minute, time.Second, "1s to 12m"}, {12 * time.Minute, 11*time.Minute + 50*time.Second, "11m to 12m"},
		{12*time.Minute + 10*time.Second, 12 * time.Minute, "12m"}, {time.Second, time.Minute, "1s"},
	} {
		s := Sender{LastHeard: now.Add(-c.last)}
		if c.maybe != 0 {
			s.MaybeHeard = now.Add(-c.maybe)
		}
		if got := s.Cells(now)[4]; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
		if got := s.Cells(time.Time{})[4]; got != "0s" {
			t.Errorf("--watch would see a change of the age: %q", got)
		}
	}
}
