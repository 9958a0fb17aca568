package replica

import "time"

// hearWithin is how long RanSince listens: three heartbeats.
const hearWithin = 3 * beatEvery

// RanSince reports whether a replica is heard that has run since before a date of this machine: it received
// what was pushed while this one was away. It is for a process that has no Replica yet.
func RanSince(cfg Config, bus Bus, since time.Time) bool {
	found := make(chan struct{}, 1)
	cancel, err := bus.Subscribe(newSubjects(cfg.Cluster).of(flowOf, "*", topicBeat), func(_ string, message []byte) {
		h, body, err := readHeader(message)
		if err != nil || h.kind != typeBeat || h.name == cfg.Name {
			return
		}
		// Its clock may differ from this one's, so times are compared, not dates.
		m, err := readBeat(body)
		if err == nil && !m.leaving && time.Duration(m.sent-int64(h.incarnation)) > time.Since(since) {
			select {
			case found <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		return false
	}
	defer cancel()
	select {
	case <-found:
		return true
	case <-time.After(hearWithin):
		return false
	}
}
