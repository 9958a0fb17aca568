package replica

// digestOf is the part of one block in the digest of all blocks. The digest is the sum of the
// parts, so a delta changes it at the cost of one block.
func digestOf(block int, seq uint64) uint64 {
	x := (uint64(block)+1)*0x9e3779b97f4a7c15 ^ (seq+1)*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
