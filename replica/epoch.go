package replica

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Epoch identifies the content of a table. It is a document of the store, so it is restored with
// the table and lost with it: a process that comes back with an empty table has a new epoch, and
// the state of the former one still counts. It also holds the number of the incarnation, so a later
// start has a higher number even if the machine's clock was set back.
type Epoch struct {
	mu          sync.Mutex
	id          uint64
	incarnation uint64
	saved       bool
}

// EpochKey is the key of the epoch among the store's documents.
var EpochKey = [16]byte{'r', 'e', 'p', 'l', 'i', 'c', 'a', ' ', 'e', 'p', 'o', 'c', 'h'}

const epochFormat = 1

// NewEpoch returns the epoch of an empty table.
func NewEpoch() *Epoch {
	return &Epoch{id: rand.Uint64(), incarnation: uint64(time.Now().UnixNano())}
}

// Changed reports whether the epoch must be written: once, or if all documents must.
func (e *Epoch) Changed(all bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := all || !e.saved
	e.saved = true
	return changed
}

// AppendDocument appends the epoch as the store keeps it.
func (e *Epoch) AppendDocument(dst []byte) []byte {
	id, incarnation := e.numbers()
	dst = binary.LittleEndian.AppendUint64(append(dst, epochFormat), id)
	return binary.LittleEndian.AppendUint64(dst, incarnation)
}

var errEpoch = errors.New("replica: the stored epoch is damaged")

// RestoreDocument continues the epoch of an earlier process, as a new incarnation.
func (e *Epoch) RestoreDocument(value []byte) error {
	if len(value) != 17 || value[0] != epochFormat {
		return errEpoch
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.id = binary.LittleEndian.Uint64(value[1:])
	e.incarnation = max(e.incarnation, binary.LittleEndian.Uint64(value[9:])+1)
	return nil
}

// ID is the epoch as a number, random.
func (e *Epoch) ID() uint64 {
	id, _ := e.numbers()
	return id
}

// Incarnation numbers the processes of the epoch: a later one has a greater number.
func (e *Epoch) Incarnation() uint64 {
	_, incarnation := e.numbers()
	return incarnation
}

func (e *Epoch) numbers() (id, incarnation uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id, e.incarnation
}

// offset estimates the difference between the local clock and an origin's: the least time between
// sending and arrival in the last minutes. It includes the shortest way of a message.
type offset struct {
	current, former time.Duration // the least in this period and in the one before
	began           time.Time     // of this period; zero: there is no sample
	later           int           // samples in a row that were a step later than the estimate
	laterFrom       time.Time     // when the first of them came
	correction      time.Duration
}

const (
	offsetPeriod = 2 * time.Minute
	// correctFrom is the difference from which dates are corrected. It exceeds the time that a
	// message takes.
	correctFrom = 2 * time.Second
	// stepSamples is the number of samples in a row that show that a clock was set, if they took stepWithin at
	// least: after this process stood still, many late ones come at once.
	stepSamples = 10
	stepWithin  = stepSamples * beatEvery / 2
)

// add adds a sample.
func (o *offset) add(now time.Time, sample time.Duration) {
	switch {
	case o.began.IsZero():
		o.began, o.current, o.former = now, sample, sample
	case now.Sub(o.began) >= offsetPeriod:
		o.began, o.former, o.current = now, o.current, sample
	default:
		o.current = min(o.current, sample)
	}
	if o.later++; o.later == 1 {
		o.laterFrom = now
	}
	if sample < o.least()+correctFrom {
		o.later = 0
	}
	if o.later >= stepSamples && now.Sub(o.laterFrom) >= stepWithin {
		o.began, o.current, o.former, o.later = now, sample, sample, 0
	}
}

func (o *offset) least() time.Duration { return min(o.current, o.former) }

// correct returns the duration to add to the origin's dates, and whether it changed. It follows the
// estimate in steps, so dates don't move with every heartbeat.
func (o *offset) correct() (_ time.Duration, changed bool) {
	least, before := o.least(), o.correction
	switch {
	case least.Abs() < correctFrom:
		o.correction = 0
	case (least - o.correction).Abs() >= correctFrom:
		o.correction = least
	}
	return o.correction, o.correction != before
}

// digestOf is the part of one block in the digest of all blocks. The digest is the sum of the
// parts, so a delta changes it at the cost of one block.
func digestOf(block int, seq uint64) uint64 {
	x := (uint64(block)+1)*0x9e3779b97f4a7c15 ^ (seq+1)*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
