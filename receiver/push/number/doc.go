// Package number reads the numbers of JSON and of plain bodies, exactly: the whole part of a number is an int64, whatever
// its notation. It is used by package native and for query parameters.
package number
