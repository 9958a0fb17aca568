package aggregate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
)

// Of a large block for another replica, the values of the namespace that has most are cut. One of another namespace is
// there as it is, also if it is larger than those that are cut.
func TestALargeBlockCutsTheLargest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newOrigin(t, true).running()
		for second := range 60 {
			large := wideHistogram(0)
			for i := range large.Histogram.Counts {
				large.Histogram.Counts[i] = 1 << 27
			}
			large.Histogram.Count = 1001 << 27
			for pod := range 200 {
				large.Tags = fmt.Appendf(nil, "pod:a%d,ns:flood", pod)
				f.apply(large)
			}
			for member := range 1500 {
				f.push(fmt.Sprintf("s:m%d-%d|s|#pod:a,ns:ns", second, member))
			}
			time.Sleep(time.Second)
		}
		other := newFollower(t, f)
		other.follow(false)
		if got := len(f.AppendState(nil, 0)); got < 2*blockStateBytes {
			t.Fatalf("the block has %d bytes, want more", got)
		}
		other.copyAll()
		if got := len(f.AppendBlockState(nil, 0)); got > blockStateBytes {
			t.Errorf("the block for another replica has %d bytes", got)
		}
		for _, asked := range []string{"s:unique:1m", "s:unique:10s"} {
			if want, got := f.ask(asked), other.reader().ask(asked); want != got {
				t.Errorf("%s is %s, at the other replica %s", asked, want, got)
			}
		}
	})
}

// A value is cut for the values of its namespace alone.
func TestPartsOfABlockAreByNamespace(t *testing.T) {
	var sizes [kind.BlockSeries]int
	var of [kind.BlockSeries]string
	for place := range sizes {
		sizes[place], of[place] = 200, "flood"
	}
	sizes[1], sizes[2], of[2] = 2, 3000, "one"
	sizes[3], of[3], of[4] = 10, "two", "two"
	got := partsOf(&sizes, &of, 10_000)
	if got["one"] != 3000 || got["two"] != 200 || got["flood"] != (10_000-3000-210-2)/(kind.BlockSeries-4) {
		t.Errorf("parts are %v", got)
	}
}
