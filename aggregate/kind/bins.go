package kind

import "math"

// RelativeError is the largest relative error of a timer's quantiles. A timer counts values in bins
// whose bounds grow by a constant ratio (DDSketch; Masson, Rim, Lee, VLDB 2019). Bin k > 0 holds
// the values in (Ratio^(k-1), Ratio^k]. Its representative differs from either end by at most
// RelativeError.
const RelativeError = 0.01

// Ratio is the quotient of a bin's bounds.
const Ratio = (1 + RelativeError) / (1 - RelativeError)

// Magnitudes below smallest count as zero; magnitudes above largest fall into the last bin. In
// milliseconds the bins range from a femtosecond to thirty million years.
const (
	smallest = 1e-12
	largest  = 1e18
)

var (
	perLog = 1 / math.Log(Ratio)
	lowest = int(math.Ceil(math.Log(smallest) * perLog))
	// binsASide is the number of bins for positive numbers, and also for negative ones.
	binsASide = int(math.Ceil(math.Log(largest)*perLog)) - lowest + 1
	zeroBin   = binsASide
	BinCount  = 2*binsASide + 1
)

// BinOf returns the bin of a finite number, 0 <= bin < BinCount. Larger numbers have larger bins.
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

// magnitudeBin computes the bin of a magnitude in [smallest, largest] by the definition, with a
// logarithm. The result counts from the bin of zero.
func magnitudeBin(magnitude float64) int {
	return 1 + min(int(math.Ceil(math.Log(magnitude)*perLog)), lowest+binsASide-1) - lowest
}

// binCells is a lookup table that replaces the logarithm. A cell covers the floats with the same
// exponent and the same six highest bits of the significand. They differ by at most 1.6 %, so a
// cell contains at most one bound between bins. The low bits of an entry are the bin of the cell's
// first float. The high bits are the remaining significand bits of the last float in that bin, or
// all ones if the whole cell is in one bin.
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

// lastOfBin returns the last float of a cell that has the same bin as the first. It searches near
// the exponential of the bound first, which avoids a bisection of the whole cell.
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

// BinValue returns the representative of a bin.
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

// WeightUnits is the weight of one observation. Weights are fixed-point, because a sample of rate
// 0.3 weighs 3.333333 observations.
const WeightUnits = 1 << 20
