// Package fair divides a budget among those who share it: a request for more than its part is refused. Of places at which
// work waits, and of the work of one goroutine, it gives the shares turns, or says what the work of each costs.
//
// It knows neither what is shared, nor who shares it.
package fair

// timesLeft bounds a share to a multiple of what is left of the budget: one share that takes all it can leaves a quarter
// to others, and a second one a sixteenth.
const timesLeft = 3

// More returns how much more a share may take: held is what it has, left is what is left of the budget. It is negative if
// the share has more than its part.
func More[N int | int64](held, left N) N { return (timesLeft*left - held) / (timesLeft + 1) }
