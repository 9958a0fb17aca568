package httpserver

import (
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func TestAppliersArePooledAndClosed(t *testing.T) {
	made, closed := 0, 0
	a := newAppliers(func() Applier {
		made++
		return &stub{closed: &closed}
	}, 2)
	x, y, z := a.take(0), a.take(0), a.take(1)
	a.give(0, x)
	a.give(0, y)
	a.give(0, z) // no slot is free
	if closed != 1 {
		t.Errorf("%d closed", closed)
	}
	if again := a.take(1); again.Applier.(*stub).parked || made != 3 {
		t.Error("a parked Applier was not used again")
	} else {
		a.give(1, again)
	}
	a.close()
	if closed != 3 {
		t.Errorf("%d closed", closed)
	}
	a.give(0, a.take(0)) // a request that outlived the server
	if closed != 4 {
		t.Errorf("%d closed", closed)
	}
}

// stub is an Applier that remembers whether it is parked.
type stub struct {
	Applier // its cache is not asked
	closed  *int
	parked  bool
}

func (s *stub) Apply(*metric.Sample) metric.Reason { return metric.Applied }
func (s *stub) Quiesce()                           {}
func (s *stub) Offline()                           { s.parked = true }
func (s *stub) Online()                            { s.parked = false }
func (s *stub) Close()                             { *s.closed++ }
