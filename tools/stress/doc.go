// Command stress runs the tests of packages as on a machine that has no time for them: beside a companion that
// takes most of every processor, stopped for seconds again and again, and with goroutines in another order
// (shuffle.go). A test that fails there judges the machine, or depends on luck. "make stress" calls it.
//
// Command stress never imports the product.
package main
