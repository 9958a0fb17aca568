package policy

// constraint is what a selector requires of each label. Labels that it doesn't name may have any
// value.
type constraint map[string]*values

// constraintOf is the conjunction of requirements.
func constraintOf(requirements []Requirement) constraint {
	c := constraint{}
	for _, r := range requirements {
		if c[r.Key] == nil {
			some := anyValues()
			c[r.Key] = &some
		}
		c[r.Key].and(r)
	}
	return c
}

// empty reports that no label set satisfies the constraint.
func (c constraint) empty() bool {
	for _, v := range c {
		if v.empty() {
			return true
		}
	}
	return false
}

// within reports whether each label set that satisfies the constraint satisfies the other one too.
// Labels are independent of each other, so it is decided for each by itself.
func (c constraint) within(other constraint) bool {
	if c.empty() {
		return true
	}
	for key, theirs := range other {
		mine := c[key]
		if mine == nil {
			all := anyValues()
			mine = &all
		}
		if !mine.within(theirs) {
			return false
		}
	}
	return true
}

// has reports whether a label set satisfies the constraint. lookup returns a label's value as
// selectors spell it.
func (c constraint) has(lookup func(key string) (string, bool)) bool {
	for key, v := range c {
		value, ok := lookup(key)
		if ok && !v.has(value) || !ok && !v.absent {
			return false
		}
	}
	return true
}
