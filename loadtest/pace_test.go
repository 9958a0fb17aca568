package loadtest

import (
	"testing"
	"testing/synctest"
	"time"
)

// A delayed sender goes on at its pace: it makes up for mostLate at most.
func TestPaceAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(1000)
		time.Sleep(time.Second) // a thousand lines are due, and none was sent
		begun := time.Now()
		for lines := int64(0); lines <= 100; lines += 10 {
			if err := p.after(t.Context(), lines); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != 100*time.Millisecond-mostLate {
			t.Errorf("100 lines took %v at 1,000 a second, want %v", took, 100*time.Millisecond-mostLate)
		}
	})
}
