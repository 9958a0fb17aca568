package rule

import "sync/atomic"

// Current holds the present Set. Any goroutine may use it.
type Current struct{ set atomic.Pointer[Set] }

// Set returns the present rules; nil: none.
func (c *Current) Set() *Set { return c.set.Load() }

// Replace replaces the rules.
func (c *Current) Replace(s *Set) { c.set.Store(s) }
