// Package console tests the pages of the console in a browser.
package console
