// Package kind implements the kinds of series: counter, gauge, timer and set.
//
// Behaviour is the one interface through which a table uses a kind. Each kind implements it in the
// file of its name: counter.go, gauge.go, timer.go and set.go. Adding a kind means a file and a row
// in behaviours; adding a stat means a case in ReadLocked or value of its kind.
// TestEveryStatOfEveryKind fails while one is missing.
//
// A Series is the kinds' view of one series: its cell, which writers update with atomics, and its
// Body, which holds the rest of its state. Env is the kinds' view of the table.
//
// The package takes no lock. Methods that end in Locked need the history lock of the series' block.
package kind
