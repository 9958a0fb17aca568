// Package httpserver is what the protocols of HTTP push have in common: a server that finds the
// route of a request, identifies its sender, reads its body and its parameters, applies its
// samples, counts them and answers.
//
// A protocol is a package that returns Routes, whose handlers get a Request. The goroutine that
// reads a request applies it: there is no queue. The server decides nothing about a sample:
// Appliers and Trust do.
package httpserver
