package loadtest

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// display is a line that overwrites itself, for whoever watches. What began last is shown: what it is a part of goes
// on when it ends.
type display struct {
	mu      sync.Mutex
	showing []*shown // the last one is on the line
}

// shown is one thing that is being done: how much of it, or for how long.
type shown struct {
	what  string
	unit  string
	of    int64
	done  *atomic.Int64 // nil: nobody knows how much
	begun time.Time
}

const progressEvery = 200 * time.Millisecond

// showProgress says every now and then how much of something is done, until stop is called.
func (m *measurement) showProgress(what string, done *atomic.Int64, of int64, unit string) (stop func()) {
	return m.show(&shown{what: what, unit: unit, of: of, done: done})
}

// showWork says what is being done and for how long, until stop is called: nobody knows how much is left of it.
func (m *measurement) showWork(what string) (stop func()) { return m.show(&shown{what: what}) }

func (m *measurement) show(s *shown) (stop func()) {
	if m.Progress == nil {
		return func() {}
	}
	s.begun = time.Now()
	m.display.mu.Lock()
	m.display.showing = append(m.display.showing, s)
	m.display.mu.Unlock()
	over := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				m.draw(s)
			}
		}
	})
	return func() {
		close(over)
		wait.Wait()
		m.erase(s)
	}
}

// draw writes the line, if that is what is on it.
func (m *measurement) draw(s *shown) {
	m.display.mu.Lock()
	defer m.display.mu.Unlock()
	if m.display.showing[len(m.display.showing)-1] == s {
		_, _ = io.WriteString(m.Progress, "\r\x1b[K"+s.line(m.title, m.columns()))
	}
}

func (m *measurement) erase(s *shown) {
	m.display.mu.Lock()
	defer m.display.mu.Unlock()
	m.display.showing = slices.DeleteFunc(m.display.showing, func(other *shown) bool { return other == s })
	_, _ = io.WriteString(m.Progress, "\r\x1b[K")
}

// usualColumns is the width of a terminal that does not say.
const usualColumns = 80

// columns is how long a line may be: one that reaches the last column is wrapped by some terminals, and what is
// wrapped is not overwritten.
func (m *measurement) columns() int {
	columns := 0
	if m.ProgressColumns != nil {
		columns = m.ProgressColumns()
	}
	if columns <= 0 {
		columns = usualColumns
	}
	return columns - 1
}

// longestBar is how wide the bar is where there is room.
const longestBar = 24

// line is at most so wide: first the bar gets shorter, then the end is cut off.
func (s *shown) line(title string, columns int) string {
	text := []rune(title)
	if s.what != "" {
		text = append(text, []rune(": "+s.what)...)
	}
	text = append(text, ':', ' ')
	if s.done == nil {
		text = append(text, []rune(time.Since(s.begun).Truncate(time.Second).String())...)
	} else {
		done := s.done.Load()
		amount := []rune(fmt.Sprintf("%s of %s %s", grouped(float64(done)), grouped(float64(s.of)), s.unit))
		if room := columns - len(text) - len(amount) - 1; room > 0 {
			text = append(append(text, bar(done, s.of, min(room, longestBar))...), ' ')
		}
		text = append(text, amount...)
	}
	if len(text) > columns {
		text = append(text[:max(columns-1, 0)], '…')
	}
	return string(text)
}

// bar draws how much of a whole is done.
func bar(done, of int64, cells int) []rune {
	full := 0
	if of > 0 {
		full = int(min(max(float64(done)/float64(of), 0), 1) * float64(cells))
	}
	drawn := make([]rune, cells)
	for i := range drawn {
		drawn[i] = '░'
		if i < full {
			drawn[i] = '█'
		}
	}
	return drawn
}
