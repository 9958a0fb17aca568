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

func (e *Epoch) numbers() (id, incarnation uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id, e.incarnation
}
