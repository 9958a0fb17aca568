package loadtest

import (
	"strings"
	"testing"
)

// balanced is 10 warm-up lines and 100 datagrams of 24 lines, 2 of them dropped.
func balanced() accounting {
	return accounting{
		warmUp: packing{10: 1}, load: packing{24: 100},
		received: 10 + 98*24, applied: 10 + 98*24, serverDrops: 2, kernelDrops: 2,
		sums: []sum{{"counters", 10 + 98*24, 10 + 98*24}, {"gauges", 7, 7}},
	}
}

func TestAccounting(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*accounting)
		wrong  string // empty: they balance
	}{
		"drops of datagrams of a fixed size": {func(*accounting) {}, ""},
		"nothing dropped": {func(b *accounting) {
			b.received, b.applied, b.serverDrops, b.kernelDrops = 2410, 2410, 0, 0
		}, ""},
		"drops of datagrams of several sizes": {func(b *accounting) {
			b.load = packing{20: 50, 24: 54} // 2296 lines, of which 2 datagrams lose 40 to 48
			b.received, b.applied = 10+2296-44, 10+2296-44
		}, ""},
		"a line lost":            {func(b *accounting) { b.received--; b.applied-- }, "1 are unaccounted for"},
		"a line counted twice":   {func(b *accounting) { b.received++; b.applied++ }, "-1 are unaccounted for"},
		"a datagram lost":        {func(b *accounting) { b.received -= 24; b.applied -= 24 }, "24 are unaccounted for"},
		"received, not applied":  {func(b *accounting) { b.applied-- }, "but applied 2361 and rejected 0"},
		"rejected":               {func(b *accounting) { b.applied--; b.rejected = 1 }, "only valid ones"},
		"a series lost a line":   {func(b *accounting) { b.sums[0].got-- }, "the sum of all counters is 2361; must be 2362"},
		"a series has one more":  {func(b *accounting) { b.sums[1].got++ }, "the sum of all gauges is 8; must be 7"},
		"drops hidden by server": {func(b *accounting) { b.serverDrops = 1 }, "the server reports 1 dropped datagrams, the kernel 2"},
		"nothing received":       {func(b *accounting) { *b = accounting{load: packing{24: 1}, kernelDrops: 1, serverDrops: 1} }, "received none"},
		"several sizes, one line too few": {func(b *accounting) {
			b.load = packing{20: 50, 24: 54}
			b.received, b.applied = 10+2296-49, 10+2296-49
		}, "49 missing do not fit"},
		"several sizes, one line too many": {func(b *accounting) {
			b.load = packing{20: 50, 24: 54}
			b.received, b.applied = 10+2296-39, 10+2296-39
		}, "39 missing do not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			b := balanced()
			c.change(&b)
			err := b.check()
			if c.wrong == "" && err != nil {
				t.Errorf("%v: want no fault", err)
			}
			if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("fault %v: want %q", err, c.wrong)
			}
		})
	}
}

func TestSumOf(t *testing.T) {
	b := accounting{warmUp: packing{10: 4}, load: packing{24: 100}, applied: 40 + 98*24}
	for _, c := range []struct {
		of   part
		want int64
	}{
		{part{size: 40}, 40 + 98*24}, {part{size: 30, share: 12}, 30 + 98*12}, {part{size: 10, share: 1, worth: 55}, 55},
	} {
		if got := b.sumOf(c.of, 24); got != c.want {
			t.Errorf("%+v has to add up to %d: want %d", c.of, got, c.want)
		}
	}
}

func TestFloorAccounting(t *testing.T) {
	f := floorAccounting{warmUp: packing{10: 1}, load: packing{24: 100}, received: 10 + 98*24, kernelDrops: 2}
	if err := f.check(); err != nil {
		t.Error(err)
	}
	f.received++
	if err := f.check(); err == nil || !strings.HasPrefix(err.Error(), "floor: ") {
		t.Errorf("fault %v: want one of the floor", err)
	}
}

func TestLost(t *testing.T) {
	p := packing{24: 2, 10: 1, 3: 1}
	for _, c := range []struct{ dropped, least, most int64 }{
		{0, 0, 0}, {1, 3, 24}, {2, 13, 48}, {3, 37, 58}, {4, 61, 61},
	} {
		if least, most := p.lost(c.dropped); least != c.least || most != c.most {
			t.Errorf("%d dropped: %d to %d lines lost, want %d to %d", c.dropped, least, most, c.least, c.most)
		}
	}
}
