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

// partWhenShort of a budget is what a share has at most while memory is short. The budgets of all that takes memory come to more
// than there is.
const partWhenShort = 8

var isShort = pressure.High

// MoreWhileShort is More for a budget of memory that is soon given back. While memory is short, a share grows to an eighth of the
// whole budget, or to least if that is more.
func MoreWhileShort[N int | int64](held, left, whole, least N) N {
	more := More(held, left)
	if more > 0 && isShort() {
		return min(more, max(whole/partWhenShort, least)-held)
	}
	return more
}
