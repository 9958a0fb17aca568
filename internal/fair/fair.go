// Package fair divides a budget among those who share it, without one that waits: who asks for more than its part is
// refused.
//
// It knows numbers only.
package fair

// timesLeft bounds a share to a multiple of what nobody has: one that takes all it can leaves a quarter to others, and a
// second one a sixteenth.
const timesLeft = 3

// More is what a share may take that has held already, where left is what nobody has. It is negative if the share has
// more than its part.
func More[N int | int64](held, left N) N { return (timesLeft*left - held) / (timesLeft + 1) }
