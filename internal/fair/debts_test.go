package fair

import "testing"

// Each round pays a part for each share, and no more than it owes.
func TestRoundsPayForDebts(t *testing.T) {
	var d Debts[string, int]
	d.Add("flood", 15)
	d.Add("flood", 10)
	d.Add("shop", 3)
	for round, want := range []struct{ paid, left int }{{13, 15}, {10, 5}, {5, 0}, {0, 0}} {
		if paid := d.Pay(10); paid != want.paid || d.Of("flood") != want.left || d.Of("shop") != 0 {
			t.Errorf("round %d pays %d and leaves %d and %d, want %+v", round, paid, d.Of("flood"), d.Of("shop"), want)
		}
	}
	if len(d.of) != 0 {
		t.Errorf("%d shares are left without a debt", len(d.of))
	}
}
