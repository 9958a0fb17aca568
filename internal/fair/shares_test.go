package fair

import "testing"

// A demand below the part has all of it, and what it leaves is for the others. All of it has no more than the budget.
func TestPartsLeaveNothing(t *testing.T) {
	for _, test := range []struct {
		budget, want int
		demands      []int
	}{
		{0, 0, nil},
		{9, 3, []int{9, 9, 9}},
		{9, 5, []int{9, 1, 3}},
		{13, 9, []int{9, 1, 3}},
		{12, 8, []int{9, 1, 3}},
		{2, 0, []int{9, 1, 3}},
	} {
		if got := Part(test.budget, test.demands); got != test.want {
			t.Errorf("the part of %d for %v is %d, want %d", test.budget, test.demands, got, test.want)
		}
	}
}
