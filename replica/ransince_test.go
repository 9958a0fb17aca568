package replica

import (
	"testing"
	"testing/synctest"
	"time"
)

// heardBus is a bus on which other replicas are heard at once.
type heardBus struct{ beats []sentBeat }

type sentBeat struct {
	name    string
	up      time.Duration
	skew    time.Duration // of its clock
	leaving bool
}

func (b heardBus) Publish(string, []byte) error { return nil }
func (b heardBus) Busy() bool                   { return false }
func (b heardBus) Subscribe(subject string, handle func(string, []byte)) (func(), error) {
	for _, beat := range b.beats {
		now := time.Now().Add(beat.skew)
		h := header{kind: typeBeat, sender: sender{beat.name, 7, uint64(now.Add(-beat.up).UnixNano())}, pieces: 1}
		m := beatBody{number: 1, sent: now.UnixNano(), leaving: beat.leaving, clock: []byte{1}}
		handle(newSubjects("test").of(flowOf, beat.name, topicBeat), m.append(h.append(nil)))
	}
	return func() {}, nil
}

// A replica that has run for longer than an outage received meanwhile, whatever its clock says; one that
// ends, one that started later and the own name did not.
func TestRanSince(t *testing.T) {
	for name, c := range map[string]struct {
		beats []sentBeat
		want  bool
	}{
		"nobody":             {nil, false},
		"one that ran":       {[]sentBeat{{"b", time.Hour, 0, false}}, true},
		"a clock is off":     {[]sentBeat{{"b", 30 * time.Second, -time.Hour, false}}, true},
		"one that came back": {[]sentBeat{{"b", 9 * time.Second, -time.Hour, false}}, false},
		"one that ends":      {[]sentBeat{{"b", time.Hour, 0, true}}, false},
		"its own name":       {[]sentBeat{{"a", time.Hour, 0, false}}, false},
		"of three":           {[]sentBeat{{"b", time.Second, 0, false}, {"c", time.Minute, 0, false}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := RanSince(Config{Name: "a", Cluster: "test"}, heardBus{c.beats}, time.Now().Add(-10*time.Second)); got != c.want {
					t.Errorf("%t, want %t", got, c.want)
				}
			})
		})
	}
}
