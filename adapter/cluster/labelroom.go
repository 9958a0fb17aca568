package cluster

import "github.com/sluice-metrics/sluice/internal/fair"

// Bounds of labels. The API server bounds a whole object only, by 1.5 MiB, which is 50,000 labels; and an indexed label
// takes some 300 bytes. Without bounds, an account that may create pods can fill this process.
const (
	// maxLabels is how many labels an object may have. One with more is as one without labels.
	maxLabels = 1024
	// freeLabels of an object take nothing of a labelRoom.
	freeLabels = 64
	// maxLabelRoom are the bytes that all other labels may take.
	maxLabelRoom = 32 << 20
	// labelBytes is what a label takes beside its text.
	labelBytes = 256
)

// labelRoom is the memory of the labels beyond the first ones of each object. Of all namespaces, one has at most three
// times what is left. Any goroutine may call its methods.
type labelRoom struct{ *fair.Room[string, int64] }

func newLabelRoom() labelRoom { return labelRoom{fair.NewRoom[string](int64(maxLabelRoom))} }

// kept takes the room of an object's labels, and returns them; without room, none of them.
func (r labelRoom) kept(namespace string, labels labelSet) labelSet {
	n := labels.beyond()
	if n > 0 && !r.Take(namespace, n) {
		return nil
	}
	return labels
}

// free gives the room of labels back that were kept.
func (r labelRoom) free(namespace string, labels labelSet) {
	if n := labels.beyond(); n > 0 {
		r.Give(namespace, n)
	}
}

// beyond is the memory of the labels beyond the free ones.
func (s labelSet) beyond() (n int64) {
	for i := freeLabels; i < len(s); i++ {
		l := s[i].Value()
		n += labelBytes + int64(len(l.key)+len(l.value))
	}
	return n
}
