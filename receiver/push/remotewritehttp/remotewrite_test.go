package remotewritehttp

import (
	"testing"

	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/remotewrite"
)

// The memory of a large request is not kept.
func TestLargeConvertersAreNotKept(t *testing.T) {
	h := New(httpserver.DefaultConfig())
	converter := h.converters.Get().(*remotewrite.Converter)
	h.converters.New = nil
	h.keep(converter, httpserver.NewRequest(httpserver.DefaultConfig(), nil, make([]byte, 1<<20)))
	if h.converters.Get() != nil {
		t.Error("the converter of a large request is kept")
	}
}
