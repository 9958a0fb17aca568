// Package pressure tells when the memory in use comes near the limit of Go's heap. The budgets of memory ask it (internal/fair):
// each is bounded, but all of them together may be larger than the limit.
//
// It never decides what is refused, and never collects garbage.
package pressure
