// Package fair divides a budget among those who share it: a request for more than its part is refused. Of places at which
// work waits, and of the work of one goroutine, it gives the shares turns, or says what the work of each costs.
//
// It knows neither what is shared, nor who shares it.
package fair

import "github.com/sluice-metrics/sluice/internal/pressure"

// timesLeft bounds a share to a multiple of what is left of the budget: one share that takes all it can leaves a quarter
// to others, and a second one a sixteenth.
const timesLeft = 3

// More returns how much more a share may take: held is what it has, left is what is left of the budget. It is negative if
// the share has more than its part.
func More[N int | int64](held, left N) N { return (timesLeft*left - held) / (timesLeft + 1) }

// A share grows only up to a part of its budget while memory is short: all budgets together may be larger than the memory.
const partWhenShort = 16

var isShort = pressure.High

// MoreMemory is More for a budget of memory, or of what takes memory, that is not set aside for it.
func MoreMemory[N int | int64](held, left N) N {
	more := More(held, left)
	if more > 0 && isShort() {
		return min(more, max((held+left)/partWhenShort, 1)-held)
	}
	return more
}
