package valuelist

import (
	"io"
	"runtime"
	"sync"
	"time"
)

// chunkBytes is the size of a write. The library decides by the first write whether to compress an
// answer, from 128 KiB on, so the first chunk is larger than that or the whole answer.
const chunkBytes = 160 << 10

var chunkBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, chunkBytes+chunkBytes/8)) }}

// writeChunks writes an answer item by item in chunks, so it is never in memory as a whole.
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
		runtime.Gosched() // let other goroutines run during a large answer
	}
	_, err := to.Write(append(buf, tail...))
	return err
}

// timestampCache caches the last encoded timestamp, by second: most items of a list share it.
type timestampCache struct {
	second int64
	text   []byte
}

// of returns the encoded time.
func (s *timestampCache) of(t time.Time, form func([]byte, time.Time) []byte) []byte {
	if second := t.Unix(); second != s.second || s.text == nil {
		s.second, s.text = second, form(s.text[:0], t)
	}
	return s.text
}
