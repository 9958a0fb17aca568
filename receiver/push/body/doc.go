// Package body reads the bodies of HTTP requests into memory that all requests share a budget of, and takes content codings
// off them. It knows neither requests nor answers.
package body
