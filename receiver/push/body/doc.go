// Package body reads the bodies of HTTP requests into memory, within a budget that all requests
// share, and decodes content codings. It knows neither requests nor answers.
package body
