package aggregate

import (
	"fmt"
	"testing"
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
