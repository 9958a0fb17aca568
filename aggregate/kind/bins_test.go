package kind

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/lookup"
)

// A bin's representative is within 1 % of every value that falls into the bin, on either side of
// zero.
func TestBinsAreWithinOnePercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		v := math.Exp(r.Float64()*(math.Log(largest)-math.Log(smallest))) * smallest
		if r.IntN(2) == 0 {
			v = -v
		}
		bin := BinOf(v)
		if bin < 0 || bin >= BinCount {
			t.Fatalf("%v is in bin %d of %d", v, bin, BinCount)
		}
		if off := math.Abs(BinValue(bin)-v) / math.Abs(v); off > RelativeError*1.000001 {
			t.Fatalf("%v is represented by %v, off by %v", v, BinValue(bin), off)
		}
	}
}

func TestBinsAreInOrder(t *testing.T) {
	values := []float64{-math.MaxFloat64, -largest * 2, -largest, -5, -1, -smallest, -smallest / 2, 0, smallest / 2, smallest, 1e-3, 1, 1.01, 1.03, 5, largest, math.MaxFloat64}
	for i := 1; i < len(values); i++ {
		if before, after := BinOf(values[i-1]), BinOf(values[i]); before > after || before < 0 || after >= BinCount {
			t.Errorf("%v is in bin %d, %v in bin %d of %d", values[i-1], before, values[i], after, BinCount)
		}
	}
	if BinOf(0) != zeroBin || BinValue(zeroBin) != 0 {
		t.Error("zero has a bin of its own")
	}
}

// The bins are those of the logarithm, on either side of each bound and everywhere else.
func TestBinsAreThoseOfTheLogarithm(t *testing.T) {
	check := func(v float64) {
		if v < smallest {
			return
		}
		if got, want := BinOf(v), zeroBin+magnitudeBin(min(v, largest)); got != want {
			t.Fatalf("%v is in bin %d, want %d", v, got, want)
		}
		if got, want := BinOf(-v), zeroBin-magnitudeBin(min(v, largest)); got != want {
			t.Fatalf("%v is in bin %d, want %d", -v, got, want)
		}
	}
	for k := range binsASide {
		bound := math.Float64bits(math.Exp(float64(k+lowest) / perLog))
		for at := bound - 300; at <= bound+300; at++ {
			check(math.Float64frombits(at))
		}
	}
	for cell := range uint64(len(binCells)) {
		from := (cell + firstCell) << cellShift
		check(math.Float64frombits(from - 1))
		check(math.Float64frombits(from))
	}
	r := rand.New(rand.NewPCG(3, 3))
	for range 2_000_000 {
		check(math.Exp(r.Float64()*(math.Log(largest)-math.Log(smallest)) + math.Log(smallest)))
	}
	for _, v := range []float64{smallest, largest, 2 * largest, math.MaxFloat64} {
		check(v)
	}
}

// An observation touches one line.
func TestTimerLineIsALine(t *testing.T) {
	if size := unsafe.Sizeof(timerLine{}); size != lookup.CacheLine {
		t.Errorf("a line takes %d bytes", size)
	}
	if size := liveBytes; size%lookup.CacheLine != 0 {
		t.Errorf("a live part takes %d bytes: the next one would begin within a line", size)
	}
}

// The tree of a timer has a place for every bin.
func TestTimerNodesCoverAllBins(t *testing.T) {
	if timerNodes*nodeLeaves*leafBins < BinCount {
		t.Errorf("%d bins, places for %d", BinCount, timerNodes*nodeLeaves*leafBins)
	}
}

// Quantiles are within 1 % of the exact ones, whatever the distribution.
func TestQuantilesAreWithinOnePercent(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for name, draw := range map[string]func() float64{
		"exponential": r.ExpFloat64,
		"lognormal":   func() float64 { return math.Exp(3 * r.NormFloat64()) },
		"both signs":  func() float64 { return 1000 * r.NormFloat64() },
		"few values":  func() float64 { return float64(r.IntN(3)) },
	} {
		d := distributions.Get().(*distribution)
		d.reset()
		var exact []float64
		for range 20_000 {
			v := draw()
			exact = append(exact, v)
			d.add(BinOf(v), WeightUnits)
			d.extend(v, v, v)
		}
		slices.Sort(exact)
		for _, q := range []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999} {
			want := exact[int(math.Ceil(q*float64(len(exact))))-1]
			if got := d.quantile(q); math.Abs(got-want) > RelativeError*1.000001*math.Abs(want)+smallest {
				t.Errorf("%s: p%v is %v, want %v within 1 %%", name, 100*q, got, want)
			}
		}
		distributions.Put(d)
	}
}

func FuzzBins(f *testing.F) {
	f.Add(appendBin(appendBin(nil, 8, WeightUnits), 1, WeightUnits/3))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, list []byte) {
		d := distributions.Get().(*distribution)
		defer distributions.Put(d)
		d.reset()
		if !d.addBins(list) {
			return
		}
		again := distributions.Get().(*distribution)
		defer distributions.Put(again)
		again.reset()
		if !again.addBins(d.appendBins(nil)) {
			t.Fatal("what was appended is not read")
		}
		if !slices.Equal(d.weights, again.weights) {
			t.Fatal("what is read is not what was appended")
		}
	})
}
