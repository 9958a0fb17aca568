// Package durable writes files and folders that survive a power cut: a reader finds the old
// content or the new one, never an empty or partial file. The data folder's small files are
// written with it; it knows nothing of their content.
package durable
