// Package number reads the numbers of JSON and of plain bodies exactly: the whole part of a number
// is an int64, in any notation.
package number
