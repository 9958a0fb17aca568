package remotewrite

import (
	"hash/maphash"
	"strings"
	"sync"
)

// Memory is what the requests of one sender tell about each other: the types that 1.0 sends by themselves (types.go), and the parts of
// histograms and summaries that come in different requests (pieces.go). All Feeds of a server share one.
//
// Nothing in it is about a value that was served: without it a type is guessed by its name again, and a histogram in pieces begins anew.
type SenderState struct {
	seed maphash.Seed

	mu     sync.Mutex // guards what follows
	types  map[uint64]map[string]knownType
	wholes map[uint64]*whole
	pieces int   // of all wholes
	swept  int64 // Unix milliseconds
}

// NewMemory makes an empty memory.
func NewSenderState() *SenderState {
	return &SenderState{seed: maphash.MakeSeed(), types: map[uint64]map[string]knownType{}, wholes: map[uint64]*whole{}}
}

const (
	// forgetAfter is how long is remembered what is not sent again, in milliseconds: Prometheus sends metadata once a minute.
	forgetAfter = 10 * 60 * 1000
	sweepEvery  = 60 * 1000
	maxSenders  = 256
)

// knownType is a family's type as a sender told it.
type knownType struct {
	of   Type
	told int64 // Unix milliseconds
	// other is when the sender told another type of that name: its targets do not agree, so the name has none.
	other int64
}

// learn keeps the types of a request. Its strings are borrowed.
func (m *SenderState) learn(sender uint64, types map[string]Type, most int, now int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked(now)
	known := m.types[sender]
	if known == nil {
		if len(m.types) >= maxSenders {
			return
		}
		known = map[string]knownType{}
		m.types[sender] = known
	}
	for name, t := range types {
		before, there := known[name]
		switch {
		case !there && len(known) >= most:
			continue
		case !there:
			known[strings.Clone(name)] = knownType{of: t, told: now}
			continue
		case before.of != t:
			before.other = now
		}
		before.of, before.told = t, now
		known[name] = before
	}
}

// typeOf is what a sender told of a metric, which may be a part of its family.
func (m *SenderState) typeOf(sender uint64, name string, now int64) Type {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.types[sender]
	if len(known) == 0 {
		return NoType
	}
	of, _ := family(name, func(name string) (Type, bool) {
		k, ok := known[name]
		switch {
		case !ok || now-k.told > forgetAfter:
			return NoType, false
		case k.other != 0 && now-k.other <= forgetAfter:
			return NoType, true
		}
		return k.of, true
	})
	return of
}

// sweepLocked lets go of what was not sent for long.
func (m *SenderState) sweepLocked(now int64) {
	if now-m.swept < sweepEvery {
		return
	}
	m.swept = now
	for sender, known := range m.types {
		for name, k := range known {
			if now-k.told > forgetAfter {
				delete(known, name)
			}
		}
		if len(known) == 0 {
			delete(m.types, sender)
		}
	}
	for key, w := range m.wholes {
		if now-w.seen > forgetAfter {
			m.forgetLocked(key)
		}
	}
}
