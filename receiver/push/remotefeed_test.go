package push

import (
	"testing"

	"github.com/sluice-metrics/sluice/receiver/remotewrite"
)

// The memory of a large request is not kept.
func TestLargeFeedsAreNotKept(t *testing.T) {
	h := newRemote(DefaultServerConfig())
	feed := h.feeds.Get().(*remotewrite.Feed)
	h.feeds.New = nil
	h.keep(feed, NewRequest(DefaultServerConfig(), nil, make([]byte, 1<<20)))
	if h.feeds.Get() != nil {
		t.Error("the feed of a large request is kept")
	}
}
