// Package footprint returns memory that a process at rest doesn't need: garbage and free pages of
// Go's heap, and pages of the program's file that only the start or a load used. It knows nothing
// of what the process does.
package footprint
