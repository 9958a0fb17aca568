package cluster

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// A status that an object has is read once, however often it is wanted. It is read again if another
// one is wanted, or the object has another one.
func TestWrittenStatusesAreReadOnce(t *testing.T) {
	accepted := func(reason string) CustomStatus {
		return CustomStatus{Conditions: []Condition{{Type: "Accepted", Reason: reason, True: true}}, Fields: map[string]string{"lastValue": "3"}}
	}
	having := func(name, reason string) *CustomObject {
		return &CustomObject{Namespace: "shop", Name: name, UID: name, Generation: 1, Status: fmt.Appendf(nil,
			`{"observedGeneration":1,"lastValue":"3","conditions":[{"type":"Accepted","status":"True","reason":%q,"observedGeneration":1}]}`, reason)}
	}
	s := newCustomStatuses(nil, nil, slog.New(slog.DiscardHandler))
	now := time.Now()
	due := func() int { return len(s.due(now)) }
	var objects []*CustomObject
	for i := range 10 {
		objects = append(objects, having(fmt.Sprint("r", i), "Good"))
		s.put(objects[i], accepted("Good"))
	}
	if n := due(); n != 0 {
		t.Fatalf("%d statuses are written again", n)
	}
	wanted := accepted("Good")
	if n := testing.AllocsPerRun(10, func() {
		for _, o := range objects {
			s.put(o, wanted)
		}
		if due() > 0 {
			t.Error("a status is written again")
		}
	}); n > 0 {
		t.Errorf("statuses that objects have are read again: %v allocations", n)
	}
	s.put(objects[0], accepted("Better"))
	s.saw(objectName{"shop", "r1"}, having("r1", "Worse"))
	if n := due(); n != 2 {
		t.Errorf("%d statuses are due, want that of another reason and that of another object", n)
	}
	now = now.Add(statusRetry)
	s.saw(objectName{"shop", "r0"}, having("r0", "Better"))
	s.saw(objectName{"shop", "r1"}, having("r1", "Good"))
	if n := due(); n != 0 {
		t.Errorf("%d statuses are due, though the objects have them", n)
	}
}
