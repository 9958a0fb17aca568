package aggregate

// This file saves a shadow as its origin would, for a replica that cannot ask the origin
// (docs/adr/0053). Another shadow that replays it is equal to this one. The methods must not run
// while the shadow changes: the caller holds a lock around both.

// Blocks is the number of blocks.
func (s *Shadow) Blocks() int { return s.Table().Blocks() }

// AppendClock appends the clock that the origin said, without the correction of its dates.
func (s *Shadow) AppendClock(dst []byte) []byte { return append(dst, s.clock...) }

// AppendBlockNames appends the identities of a block's series.
func (s *Shadow) AppendBlockNames(dst []byte, block int) []byte {
	return s.Table().AppendBlockNames(dst, block)
}

// AppendState appends the values and windows of all series of a block.
func (s *Shadow) AppendState(dst []byte, block int) []byte { return s.Table().AppendState(dst, block) }

// savedState is the state that a place's series is saved with: that at its origin.
func (b *block) savedState(place uint32) uint32 {
	if b.copied {
		return b.series[place].aliases.Load()
	}
	return b.page.cells[place].State.Load()
}
