// Command stress runs the tests of packages as on a machine that has no time for them: beside a companion that
// takes most of every processor, and stopped for seconds again and again. A test that fails there judges the
// machine. "make stress" calls it.
//
// Command stress never imports the product.
package main
