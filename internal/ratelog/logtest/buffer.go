package logtest

import (
	"strings"
	"sync"
)

// A Buffer is a log. Any goroutine may write it and read it. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the log so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Count returns the number of times that the log has a text.
func (b *Buffer) Count(text string) int { return strings.Count(b.String(), text) }
