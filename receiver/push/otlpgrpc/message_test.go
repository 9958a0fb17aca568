package otlpgrpc

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// FuzzMessage: whatever a client sends, a message is what the five bytes before it say, or an error.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 'a', 'b'}, "")
	f.Add([]byte{1, 0, 0, 0, 1, 'a'}, "gzip")
	f.Add([]byte{2, 0xff, 0xff, 0xff, 0xff}, "zstd")
	f.Fuzz(func(t *testing.T, sent []byte, coding string) {
		m := message{from: bytes.NewReader(sent), coding: coding}
		size, used, err := m.head()
		var read []byte
		if err == nil {
			var u body.Buffer
			err = u.Fill(&m, &body.Budget{Max: 1 << 30}, 1<<20)
			read = u.B
		}
		switch fault := new(httpserver.Fault); {
		case err == nil && (len(read) != size || !bytes.Equal(read, sent[5:]) || sent[0] > 1 || (sent[0] == 1) != (used != "")):
			t.Fatalf("%d bytes of %d in %q", len(read), size, used)
		case err != nil && !errors.As(err, &fault) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, body.ErrTooLarge):
			t.Fatal(err)
		}
	})
}
