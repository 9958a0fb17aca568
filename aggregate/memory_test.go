package aggregate

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// Series of many objects that have the same labels beside have them in one piece of memory.
func TestLabelsAreShared(t *testing.T) {
	f := newFixture(t)
	for i := range 100 {
		f.push(fmt.Sprintf("hits:1|c|#pod:p%d,ns:ns,code:200", i))
	}
	first := f.blocks.at[0].Load().series[0].first
	for place := range 100 {
		if s := &f.blocks.at[0].Load().series[place]; s.first != first || s.labels().String() != "{code=200}" {
			t.Fatalf("series %d has %s by itself", place, s.labels())
		}
	}
}

// A table without memory refuses new series and forgets aliases, and nothing else.
func TestNoArena(t *testing.T) {
	f := newFixture(t)
	f.push("c:1|c|#pod:a,ns:ns")
	pages, records := f.blocks.pages, f.aliases.Records.Memory
	f.blocks.pages, f.blocks.next = &memory.Arena{Base: pages.Base}, kind.BlockSeries
	f.aliases.Records.Memory = &memory.Arena{Base: records.Base}
	for i := range f.aliases.Shards {
		f.aliases.Shards[i] = lookup.RecordShard{}
	}
	f.refuses("d:1|c|#pod:a,ns:ns", metric.OverLimit)
	f.push("c:1|c|#ns:ns,pod:a")
	f.want("c:total", "a=2")
	runtime.KeepAlive(pages)
	runtime.KeepAlive(records)
}

// Without address space for the line cache, each line is parsed.
func TestNoAddresses(t *testing.T) {
	f := newFixture(t)
	f.aliases.Records.Memory = &memory.Arena{}
	for range 2 {
		if outcomes, parsed := f.take(f.w, nil, "c:1|c|#pod:a,ns:ns"); parsed != 1 || outcomes[0] != metric.Applied {
			t.Errorf("%v, %d parsed", outcomes, parsed)
		}
	}
	f.w.Offline()
	f.want("c:total", "a=2")
}

// docs/sizing.md states the memory of a place in a block.
func TestBytesOfAPlace(t *testing.T) {
	page, err := os.ReadFile("../docs/sizing.md")
	must(t, err)
	if row := fmt.Sprintf("cell, identity and dates | %d | `TestBytesOfAPlace` |", placeBytes); !strings.Contains(string(page), row) {
		t.Errorf("docs/sizing.md lacks %q: a place takes %d bytes; correct the figures that include it", row, placeBytes)
	}
}
