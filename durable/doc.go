// Package durable writes files and folders that survive a power cut: a reader finds the old content or the new
// one, never an empty or a partial file. It comes before everything that keeps something in the data folder, and
// knows nothing of what is kept.
package durable
