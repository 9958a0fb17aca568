package fair

// Debts are what the shares of a repeated round have had beyond its parts: a share that owes as much as a part waits for the
// rounds that pay for it. The zero value is ready.
type Debts[K comparable, N int | ~int64] struct{ of map[K]N }

// Add counts what a share has had.
func (d *Debts[K, N]) Add(share K, n N) {
	if d.of == nil {
		d.of = map[K]N{}
	}
	d.of[share] += n
}

// Of is what a share owes.
func (d *Debts[K, N]) Of(share K) N { return d.of[share] }

// Pay pays a part for each share, or what it owes if that is less, and returns the sum.
func (d *Debts[K, N]) Pay(part N) (sum N) {
	for share, owes := range d.of {
		paid := min(owes, part)
		if sum += paid; paid == owes {
			delete(d.of, share)
		} else {
			d.of[share] = owes - paid
		}
	}
	return sum
}
