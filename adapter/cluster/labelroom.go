package cluster

import "github.com/sluice-metrics/sluice/internal/fair"

// Bounds of labels. The API server bounds a whole object only, by 1.5 MiB, and a label takes more here than there. Without bounds,
// an account that may create pods can fill this process.
const (
	// freeLabelText are the bytes of an object's labels that take nothing of a labelRoom.
	freeLabelText = 1024
	// freeLabelRoom of a labelRoom are free for each namespace.
	freeLabelRoom = 4 << 20
	// maxLabelRoom are the bytes that all labels may take beyond.
	maxLabelRoom = 192 << 20
	// indexedLabelBytes is what a pod's label takes in the index, newLabelBytes what the first one of a namespace does beside its text.
	indexedLabelBytes = 32
	newLabelBytes     = 128
)

// labelRoom is the memory of the labels of pods and of all watched kinds. Of all namespaces, one has at most three times what is left, beside
// what is free. Any goroutine may call its methods.
type labelRoom struct{ *fair.Room[string, int64] }

func newLabelRoom() labelRoom {
	return labelRoom{fair.NewRoomBeyond[string](int64(freeLabelRoom), int64(maxLabelRoom))}
}

// ofKind is the part of the room that the labels' text of one kind's objects takes.
func (r labelRoom) ofKind() objectRoom { return objectRoom{r.Room, map[objectName]int64{}} }

// keptLabels takes the room of the text of an object's labels, and returns them; without room, none
// of them.
func (r *objectRoom) keptLabels(key objectName, labels labelSet) labelSet {
	if !r.take(key, labels.beyond()) {
		return labelSet{}
	}
	return labels
}

// beyond is the memory of the labels' text beyond what is free.
func (s labelSet) beyond() int64 { return max(int64(len(s.String())-freeLabelText), 0) }
