package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// plainSlot is a slot without any economy of memory, to compare with.
type plainSlot struct {
	name    string
	objects map[metric.Object]int
	leaving bool
}

func (p plainSlot) series() (n int) {
	for _, object := range p.objects {
		n += object
	}
	return n
}

// Quotas with few and with many slots, of one and of several objects, hold exactly the series that
// entered and did not leave.
func TestQuotaAgainstPlainSlots(t *testing.T) {
	shop := metric.Object{Namespace: "shop"}
	for _, c := range []struct {
		of      []metric.Object
		names   int
		entered int // percent
	}{
		{[]metric.Object{pod("web-1")}, 6, 50}, {[]metric.Object{pod("web-1")}, 60, 55}, {[]metric.Object{pod("web-1")}, 60, 45},
		{[]metric.Object{shop, {Resource: "services", Namespace: "shop", Name: "a"}, {Resource: "namespaces", Name: "shop"}}, 30, 52},
		{[]metric.Object{{Resource: "pods", Namespace: "shop", UID: "of no name"}, shop}, 4, 50},
	} {
		random := rand.New(rand.NewPCG(3, uint64(c.names)))
		s := &quota{key: quotaKeyOf(&c.of[0])}
		var plain []plainSlot
		for step := range 8_000 {
			name, o := fmt.Sprint("m", random.IntN(c.names)), c.of[random.IntN(len(c.of))]
			at := slices.IndexFunc(plain, func(p plainSlot) bool { return p.name == name })
			entered := c.entered
			if step/2000%4 == 3 {
				entered = 5 // nearly all leave
			}
			switch roll := random.IntN(100); {
			case roll < entered:
				s.enterSeries(&o, name, uint32(step))
				if at < 0 {
					at = len(plain)
					plain = append(plain, plainSlot{name: name, objects: map[metric.Object]int{}})
				}
				plain[at].objects[o]++
			case roll == 99:
				if at >= 0 && !plain[at].leaving {
					s.evict(s.slot(name))
					plain[at].leaving = true
				}
			default:
				s.leaveSeries(&o, name)
				if at >= 0 && plain[at].objects[o] > 0 {
					plain[at].objects[o]--
				}
				plain = slices.DeleteFunc(plain, func(p plainSlot) bool { return p.series() == 0 })
			}
			compareScope(t, s, plain)
			if t.Failed() {
				t.Fatalf("after step %d", step)
			}
		}
	}
}

func compareScope(t *testing.T, s *quota, plain []plainSlot) {
	var metrics, series uint32
	i := 0
	for slot := range s.taken() {
		if i >= len(plain) || slot.name != plain[i].name || int(slot.series) != plain[i].series() || slot.evicted != plain[i].leaving || s.slot(slot.name) != slot {
			t.Errorf("slot %d is %+v of %d", i, slot, len(plain))
			return
		}
		for _, o := range slot.objects(s.key) {
			if plain[i].objects[o] == 0 {
				t.Errorf("%s is not of %v", slot.name, o)
			}
		}
		if !slot.evicted {
			metrics, series = metrics+1, series+slot.series
		}
		i++
	}
	if i != len(plain) || s.metrics != metrics || s.series != series || s.empty() != (i == 0) || i > 0 && len(s.slots) > 2*i+1 && s.nameIndex() != nil {
		t.Errorf("%d slots of %d, %d metrics and %d series, want %d and %d; in %d places", i, len(plain), s.metrics, s.series, metrics, series, len(s.slots))
	}
}

// Quotas whose keys have the same hash are distinguished.
func TestQuotasOfOneHash(t *testing.T) {
	s := shard{quotas: map[uint64]*quota{}}
	var all []*quota
	for _, name := range []string{"a", "b", "c"} {
		q := &quota{key: quotaKey{namespace: name}}
		all = append(all, q)
		s.put(7, q)
	}
	for _, at := range []int{1, 0, 0} {
		gone := all[at]
		all = slices.Delete(all, at, at+1)
		s.drop(7, gone)
		if s.find(7, gone.key) != nil {
			t.Errorf("%v is still there", gone.key)
		}
		for _, q := range all {
			if s.find(7, q.key) != q {
				t.Errorf("%v is not found", q.key)
			}
		}
	}
	if len(s.quotas) != 0 {
		t.Errorf("left: %v", s.quotas)
	}
}
