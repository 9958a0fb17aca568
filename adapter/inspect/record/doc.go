// Package record remembers who pushes, and which samples were rejected, for lists (docs/adr/0054). The
// receivers tell it; lists read it.
//
// Its memory is bounded, and it forgets the oldest first. Nothing of it stands on the path of a known
// line, and a flood of rejected lines is sampled.
package record
