package record

// Sampling of a flood: of each kind of rejection, the first fully samples of a second are recorded,
// then one of fully, which counts for that many. So a flood costs a comparison a sample.
const fully = 1024

// Weight returns how many samples a rejected one stands for; 0: it is not recorded. The arguments are
// the results of ratelog.Limiter.Allow: a sample that is logged, or the n-th since then.
func Weight(n uint64, logged bool) uint64 {
	switch {
	case logged:
		return 1
	case n <= fully:
		return 1
	case n%fully == 0:
		return fully
	}
	return 0
}
