package remotewritehttp

import (
	"testing"

	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/remotewrite"
)

// The memory of a large request is not kept.
func TestLargeFeedsAreNotKept(t *testing.T) {
	h := New(httpserver.DefaultConfig())
	feed := h.feeds.Get().(*remotewrite.Converter)
	h.feeds.New = nil
	h.keep(feed, httpserver.NewRequest(httpserver.DefaultConfig(), nil, make([]byte, 1<<20)))
	if h.feeds.Get() != nil {
		t.Error("the feed of a large request is kept")
	}
}
