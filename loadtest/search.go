package loadtest

const (
	// searchResolution is how near the answer is to the rate that loses something.
	searchResolution = 0.02
	// searchSteps bounds a search.
	searchSteps = 20
	// searchGrowth is how much more is tried when the highest guess loses nothing.
	searchGrowth = 1.25
	// heldPace of a pace is what a sender must have reached, or nothing is said of that pace.
	heldPace = 0.98
)

// lossless is the result of a search.
type lossless struct {
	rate float64
	// bySender: the server lost nothing of the most that the sender can send.
	bySender bool
	// unheld: the sender did not hold the lowest rate above it, so the loss there is unknown.
	unheld bool
	steps  int
}

// outcome is the result of offering a rate.
type outcome int

const (
	allTaken outcome = iota
	someLost
	// notHeld: the sender did not reach the rate, so the outcome says nothing about the receiver.
	notHeld
)

const (
	// lossTries is how often something must be lost at a rate: one hiccup of the machine would end
	// the search far too low.
	lossTries = 2
	// rateTries is how often a rate is offered at most, those included that the sender did not
	// hold.
	rateTries = 3
)

// outcomeAt is the outcome of a load at a rate.
func (t Taken) outcomeAt(rate float64) outcome {
	switch {
	case t.OfferedPerSecond() < heldPace*rate:
		return notHeld
	case t.DroppedDatagrams > 0:
		return someLost
	}
	return allTaken
}

// highestLossless finds the highest rate without loss by bisection. It starts at guess and tries
// none above most, the sender's maximum. A rate with a loss, or that the sender did not hold, is
// tried again.
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
