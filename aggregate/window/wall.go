package window

import "time"

// wallOf returns the wall clock at a result of time.Now. An end-to-end test builds the binary with
// another wallOf to set the clock (e2e/torture/clock_test.go).
func wallOf(now time.Time) time.Time { return now }
