package remotewrite

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

// SenderState is the knowledge that outlives a request: the types that 1.0 sends separately
// (types.go), and the parts of histograms and summaries that arrive in different requests
// (assembly.go). All Converters of a server share one.
//
// It holds no served value. Without it, types are guessed from names again, and partial histograms
// start over.
type SenderState struct {
	seed maphash.Seed

	mu         sync.Mutex // guards the fields below
	types      map[uint64]*knownTypes
	assemblies map[uint64]*assembly
	held       fair.Shares[uint64, int] // bytes of all that is kept
	swept      int64                    // Unix milliseconds
}

func NewSenderState() *SenderState {
	return &SenderState{seed: maphash.MakeSeed(), types: map[uint64]*knownTypes{}, assemblies: map[uint64]*assembly{}}
}

const (
	// forgetAfter is how long unrepeated knowledge is kept, in milliseconds: Prometheus sends
	// metadata once a minute.
	forgetAfter = 10 * 60 * 1000
	sweepEvery  = 60 * 1000
	// maxHeld bounds the bytes of all senders: 30,000 histograms of 12 buckets in parts.
	maxHeld               = 96 << 20
	typeBytes, typesBytes = 128, 512 // of a name beside its text, and of a sender's map
)

// mayHoldLocked reports whether a share may take bytes.
func (m *SenderState) mayHoldLocked(share uint64, bytes int) bool {
	return bytes <= m.held.More(share, maxHeld)
}

// knownTypes are the types of a sender's families, by name.
type knownTypes struct {
	share  uint64
	byName map[string]*knownType
}

// knownType is a family's type according to a sender.
type knownType struct {
	of   Type
	told int64 // Unix milliseconds
	// other is the time at which the sender sent a different type of that name: its targets
	// disagree, so the name has no type.
	other int64
}

// learnTypes keeps the types of a request. The strings are borrowed.
func (m *SenderState) learnTypes(sender, share uint64, types map[string]Type, limit int, now int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked(now)
	known := m.types[sender]
	if known == nil {
		if !m.mayHoldLocked(share, typesBytes) {
			return
		}
		known = &knownTypes{share, map[string]*knownType{}}
		m.types[sender] = known
		m.held.Add(share, typesBytes)
	}
	for name, t := range types {
		before := known.byName[name]
		switch {
		case before == nil:
			// The series of a name that is too long are rejected.
			bytes := typeBytes + len(name)
			if len(known.byName) < limit && len(name) <= metric.MaxNameLength && m.mayHoldLocked(known.share, bytes) {
				known.byName[strings.Clone(name)] = &knownType{of: t, told: now}
				m.held.Add(known.share, bytes)
			}
			continue
		case before.of != t:
			before.other = now
		}
		before.of, before.told = t, now // an assignment to the map would replace its key by name
	}
}

// typeOf is the type of a metric, which may be a part of its family.
func (m *SenderState) typeOf(sender uint64, name string, now int64) Type {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.types[sender]
	if known == nil {
		return NoType
	}
	return family(name, func(name string) (Type, bool) {
		k, ok := known.byName[name]
		switch {
		case !ok || now-k.told > forgetAfter:
			return NoType, false
		case k.other != 0 && now-k.other <= forgetAfter:
			return NoType, true
		}
		return k.of, true
	})
}

// sweepLocked drops knowledge that was not repeated for long.
func (m *SenderState) sweepLocked(now int64) {
	if now-m.swept < sweepEvery {
		return
	}
	m.swept = now
	for sender, known := range m.types {
		for name, k := range known.byName {
			if now-k.told > forgetAfter {
				delete(known.byName, name)
				m.held.Add(known.share, -typeBytes-len(name))
			}
		}
		if len(known.byName) == 0 {
			delete(m.types, sender)
			m.held.Add(known.share, -typesBytes)
		}
	}
	for key, w := range m.assemblies {
		if now-w.seen > forgetAfter {
			m.forgetLocked(key)
		}
	}
}
