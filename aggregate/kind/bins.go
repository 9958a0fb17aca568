package kind

import "math"

// A timer's values are counted in bins whose bounds grow by a constant ratio, so that any quantile
// read off them is within 1 % of the exact one (DDSketch; Masson, Rim, Lee, VLDB 2019). Bin k > 0
// holds the values in (ratio^(k-1), ratio^k]; its representative is off by at most relativeError at
// either end.
const RelativeError = 0.01

const Ratio = (1 + RelativeError) / (1 - RelativeError)

// Magnitudes below smallest count as zero, those above largest fall into the last bin. In
// milliseconds that is from a femtosecond to thirty million years.
const (
	smallest = 1e-12
	largest  = 1e18
)

var (
	perLog = 1 / math.Log(Ratio)
	lowest = int(math.Ceil(math.Log(smallest) * perLog))
	// binsASide is how many bins the positive, and as well the negative, numbers have.
	binsASide = int(math.Ceil(math.Log(largest)*perLog)) - lowest + 1
	zeroBin   = binsASide
	BinCount  = 2*binsASide + 1
)

// BinOf maps a finite number to its bin, 0 <= bin < binCount, in the order of the numbers.
func BinOf(v float64) int {
	magnitude := math.Abs(v)
	if magnitude < smallest {
		return zeroBin
	}
	k := binsASide
	if magnitude < largest {
		bits := math.Float64bits(magnitude)
		cell := binCells[bits>>cellShift-firstCell]
		k = int(cell & cellBin)
		if bits&cellMask > cell>>cellBits {
			k++
		}
	}
	if v < 0 {
		return zeroBin - k
	}
	return zeroBin + k
}

// magnitudeBin is the bin of a magnitude in [smallest, largest], counted from zero's, by the
// definition: a logarithm.
func magnitudeBin(magnitude float64) int {
	return 1 + min(int(math.Ceil(math.Log(magnitude)*perLog)), lowest+binsASide-1) - lowest
}

// binCells spare the logarithm. A cell has the floats that share exponent and six bits behind it,
// at most 1.6 % apart: so at most one bound of bins lies between them. Its entry is the bin of its
// first float, with the last one in that bin by the other bits of its significand; all ones where
// there is no bound.
var binCells = func() []uint64 {
	cells := make([]uint64, math.Float64bits(largest)>>cellShift-firstCell+1)
	for i := range cells {
		from := (uint64(i) + firstCell) << cellShift
		first := magnitudeBin(max(math.Float64frombits(from), smallest))
		cells[i] = lastOfBin(from, first)&cellMask<<cellBits | uint64(first)
	}
	return cells
}()

const (
	cellShift = 52 - 6
	cellMask  = 1<<cellShift - 1
	cellBits  = 13
	cellBin   = 1<<cellBits - 1
)

var firstCell = math.Float64bits(smallest) >> cellShift

// lastOfBin is the last float of a cell in the bin of its first. The bound is near where the
// exponential has it: that spares halving the whole cell.
func lastOfBin(from uint64, bin int) uint64 {
	low, high := from, from|cellMask
	if magnitudeBin(math.Float64frombits(high)) == bin {
		return high
	}
	bound := math.Float64bits(math.Exp(float64(bin-1+lowest) / perLog))
	const near = 1 << 10
	if at := bound - near; at > low && at < high && magnitudeBin(math.Float64frombits(at)) == bin {
		low = at
	}
	if at := bound + near; at > low && at < high && magnitudeBin(math.Float64frombits(at)) != bin {
		high = at
	}
	for low+1 < high {
		if at := low + (high-low)/2; magnitudeBin(math.Float64frombits(at)) == bin {
			low = at
		} else {
			high = at
		}
	}
	return low
}

// BinValue is a bin's representative.
func BinValue(bin int) float64 {
	if bin == zeroBin {
		return 0
	}
	k := bin - zeroBin
	sign := 1.0
	if k < 0 {
		k, sign = -k, -1
	}
	upper := math.Exp(float64(k-1+lowest) / perLog)
	return sign * 2 * upper / (Ratio + 1)
}

// WeightUnits is one observation on the grid that weights are kept on: a sample of rate 0.3 weighs
// 3.333333.
const WeightUnits = 1 << 20

// MaxWeight bounds what one sample may stand for, so that bins do not overflow: 2^20, a rate of a
// millionth.
const MaxWeight = 1 << 20
