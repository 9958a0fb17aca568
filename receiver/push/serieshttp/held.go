package serieshttp

import (
	"context"
	"io"

	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// mostHeld is the size at which a page is sent in parts: the memory that a page takes.
const mostHeld = 8 << 20

// heldWriter holds what is written until the totals in it are on disk: at mostHeld bytes, and at the
// end (release).
type heldWriter struct {
	to      io.Writer
	persist func(context.Context) error // nil: nothing must be on disk
	began   chan<- error                // gets the result of the first wait
	text    []byte
}

func (h *heldWriter) Write(text []byte) (int, error) {
	h.text = append(h.text, text...)
	if len(h.text) < mostHeld {
		return len(text), nil
	}
	return len(text), h.release()
}

// release waits for the disk and sends.
func (h *heldWriter) release() error {
	if len(h.text) == 0 && h.began == nil {
		return nil
	}
	var err error
	if h.persist != nil {
		ctx, cancel := context.WithTimeout(context.Background(), httpserver.PersistTimeout)
		err = h.persist(ctx)
		cancel()
	}
	if h.began != nil {
		h.began <- err
		h.began = nil
	}
	if err == nil {
		_, err = h.to.Write(h.text)
		h.text = h.text[:0]
	}
	return err
}

// begin writes a page, and returns a stream once its first part may be sent. A stream that fails
// later ends the connection, so that a scraper doesn't take the part for the whole.
func (h *Handler) begin(page *export.Page, zipped bool) (io.Reader, error) {
	stream, to := io.Pipe()
	began := make(chan error, 1)
	held := &heldWriter{to: to, began: began}
	if page.HasTotals() {
		held.persist = h.source.Persist
	}
	go func() {
		defer h.slots.Release(noPrefix)
		_ = to.CloseWithError(h.write(held, page, zipped))
	}()
	return stream, <-began
}
