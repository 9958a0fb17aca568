package server

import "os"

// Long is set if the environment requests the long forms of the tests: TORTURE=long.
var Long = os.Getenv("TORTURE") == "long"

// ShortOrLong returns a size of the short form of a test, or that of the long one.
func ShortOrLong[T any](short, long T) T {
	if Long {
		return long
	}
	return short
}
