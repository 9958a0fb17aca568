package valuelist

import (
	"io"
	"runtime"
	"sync"
	"time"
)

// chunkBytes is how much is written at once. The library decides by the first piece whether an answer is worth being compressed: one
// of more than 128 KiB is, so the first piece is larger than that, or all there is.
const chunkBytes = 160 << 10

var chunkBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, chunkBytes+chunkBytes/8)) }}

// inChunks writes an answer piece by piece, item by item: it is never in memory as a whole.
func writeChunks(to io.Writer, head []byte, items int, item func(dst []byte, i int) []byte, tail string) error {
	kept := chunkBuffers.Get().(*[]byte)
	defer chunkBuffers.Put(kept)
	buf := append((*kept)[:0], head...)
	for i := range items {
		buf = item(buf, i)
		if len(buf) < chunkBytes {
			continue
		}
		if _, err := to.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
		runtime.Gosched() // a large answer is not the only one who wants the processor
	}
	_, err := to.Write(append(buf, tail...))
	return err
}

// stamps remembers the last timestamp as it was written, to the second: in a list most have the same.
type timestampCache struct {
	second int64
	text   []byte
}

// of returns what form makes of the time.
func (s *timestampCache) of(t time.Time, form func([]byte, time.Time) []byte) []byte {
	if second := t.Unix(); second != s.second || s.text == nil {
		s.second, s.text = second, form(s.text[:0], t)
	}
	return s.text
}
