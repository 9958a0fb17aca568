package loadtest

const (
	// searchResolution is the relative distance to the lowest rate with a loss at which a search
	// ends.
	searchResolution = 0.02
	// searchSteps limits the bisection: it ends after so many steps.
	searchSteps = 20
	// searchGrowth is the factor by which the rate grows while nothing is lost.
	searchGrowth = 1.25
	// heldPace is the share of a rate that the sender must reach; otherwise the try says nothing
	// about that rate.
	heldPace = 0.98
)

// lossless is the result of a search.
type lossless struct {
	rate float64
	// bySender reports that nothing was lost at the highest rate tried, so the sender was the
	// limit.
	bySender bool
	// unheld reports that the sender did not hold the lowest rate above, so the loss there is
	// unknown.
	unheld bool
	steps  int
}

// outcome is the result of offering a rate.
type outcome int

const (
	allTaken outcome = iota
	someLost
	// notHeld means that the sender did not reach the rate, so the try says nothing about the
	// receiver.
	notHeld
)

const (
	// lossTries is the number of tries with a loss that rule a rate out: one hiccup of the machine
	// would end the search far too low.
	lossTries = 2
	// rateTries is the most tries of one rate, including tries in which the sender did not hold the
	// rate.
	rateTries = 3
)

// outcomeAt returns the outcome of a load at a rate.
func (t Taken) outcomeAt(rate float64) outcome {
	switch {
	case t.OfferedPerSecond() < heldPace*rate:
		return notHeld
	case t.DroppedDatagrams > 0:
		return someLost
	}
	return allTaken
}

// highestLossless finds the highest rate without loss by bisection. It starts at guess and tries no
// rate above most, the sender's maximum. It tries a rate again after a loss, or if the sender did
// not hold the rate.
func highestLossless(guess, most float64, try func(rate float64) (outcome, error)) (found lossless, err error) {
	attempt := func(rate float64) (bool, error) {
		losses := 0
		for tries := 0; tries < rateTries && losses < lossTries; tries++ {
			found.steps++
			got, err := try(rate)
			if err != nil || got == allTaken {
				return err == nil, err
			}
			if got == someLost {
				losses++
			}
		}
		found.unheld = losses < lossTries
		return false, nil
	}
	low, high := 0.0, min(guess, most)
	for { // upwards, until something is lost
		ok, err := attempt(high)
		if err != nil {
			return found, err
		}
		if !ok {
			break
		}
		if found.rate = high; high >= most {
			found.bySender = true
			return found, nil
		}
		low, high = high, min(high*searchGrowth, most)
	}
	for high-low > searchResolution*high && found.steps < searchSteps {
		middle := (low + high) / 2
		ok, err := attempt(middle)
		if err != nil {
			return found, err
		}
		if ok {
			low, found.rate = middle, middle
		} else {
			high = middle
		}
	}
	return found, nil
}
