package replica

import (
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
)

// Config names a replica.
type Config struct {
	// Name is the name of this origin: lower-case letters, digits and hyphens.
	Name string
	// Cluster separates replicas that share one NATS.
	Cluster string
	// Peers are the names of the replicas that are configured, as far as they are known. They come
	// before other origins where there is not enough room for all.
	Peers []string
}

// isPeer reports whether an origin is one of those that are configured.
func (c *Config) isPeer(origin string) bool {
	return len(c.Peers) == 0 || slices.Contains(c.Peers, origin)
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if !validName(c.Name) {
		faults.Add("Name", "is %q; must be 1 to %d lower-case letters, digits or hyphens", c.Name, longestName)
	}
	if !validName(c.Cluster) {
		faults.Add("Cluster", "is %q; must be 1 to %d lower-case letters, digits or hyphens", c.Cluster, longestName)
	}
	return faults.Join()
}

const longestName = 63

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return 0 < len(name) && len(name) <= longestName
}

// Table is the own table: the blobs that the store persists.
type Table interface {
	// Blocks is the number of blocks. It only grows.
	Blocks() int
	// AppendClock appends the state common to all blocks.
	AppendClock(dst []byte) []byte
	// AppendBlockState appends all of a block's values. Any goroutine may call it.
	AppendBlockState(dst []byte, block int) []byte
	// AppendBlockNames appends the identities of a block's series. Any goroutine may call it.
	AppendBlockNames(dst []byte, block int) []byte
}

// Shadow is a copy of another origin's table. Its methods are called one at a time, except Expired,
// Series and Bytes, which any goroutine may call.
type Shadow interface {
	// Begin empties the shadow and continues from an origin's clock. It is an error if the clock's
	// format or windows cannot be read.
	Begin(clock []byte) error
	// ReplaceBlock replaces a block by its names and state; both are nil for an empty block.
	ReplaceBlock(block int, names, state []byte) error
	// ApplyDelta applies a delta to a block that has the delta before it.
	ApplyDelta(block int, delta []byte) error
	// Advance continues to a later clock of the same epoch, perhaps of a restarted process. The
	// correction is added to the origin's dates. It is an error if the clock's windows differ from
	// those that the shadow began with.
	Advance(clock []byte, correction time.Duration) error
	// AdvanceOf is Advance for a clock that the origin said at a local time in the past, and nothing
	// since. If the shadow's is later, it stays, unless it may go back.
	AdvanceOf(clock []byte, correction time.Duration, local time.Time, back bool) error
	// LetRun makes the clock go on from a local time, until the next Advance.
	LetRun(since time.Time)
	// SetLives sets whether the origin goes on receiving while nothing is heard of it.
	SetLives(lives bool)
	// Blocks is the number of blocks.
	Blocks() int
	// AppendClock appends the clock that the origin said last.
	AppendClock(dst []byte) []byte
	// AppendBlockState and AppendBlockNames append a block as the origin's table does.
	AppendBlockState(dst []byte, block int) []byte
	AppendBlockNames(dst []byte, block int) []byte
	// End removes all series. Nothing else is called afterwards.
	End()
	// Expired reports whether the lifetimes of all series are over.
	Expired() bool
	// Series is the number of series.
	Series() int
	// Bytes is the memory of the shadow.
	Bytes() int64
}

// Document is a small keyed value that replicas have in common, such as a group or a deletion.
type Document struct {
	Key   string
	Stamp int64  // Unix milliseconds at its origin; for Apply, corrected to the local clock
	Value []byte // nil: deleted
}

// Documents replicate documents whole. Any goroutine may call the methods.
type Documents interface {
	// TakeChanged returns the documents that changed here since the last call.
	TakeChanged() []Document
	// All returns all documents of this origin.
	All() []Document
	// Apply enters documents of another origin. It may be called again with the same ones; the
	// newest stamp of a key wins, then the origin's name.
	Apply(origin string, docs []Document)
}

// Parts are what a replica joins.
type Parts struct {
	Bus   Bus
	Table Table
	// Documents may be nil.
	Documents Documents
	// Usage may be nil.
	Usage Usage
	// Answer answers what another replica asks (Ask). It may be nil.
	Answer func(question []byte) []byte
	// NewShadow returns an empty shadow. An origin may have a second one: the state of its former
	// epoch, or one that will replace the first.
	NewShadow func(origin string) Shadow
	// SetShadows tells readers the shadows that they merge, in the order of their origins' names.
	// rank is the number of those that precede the own name.
	SetShadows func(shadows []Shadow, rank int)
	// Relayed is called after the state of a silent origin came from another replica. It may be nil.
	Relayed func()
	// Lives reports whether an origin that is silent goes on receiving behind a cut link. It is asked repeatedly
	// while the origin is silent, and answers at once. nil: a silent origin has ended.
	Lives func(origin string) bool
	// FlushSoon makes the store flush at once.
	FlushSoon func()
	// Wall reads the machine's clock, which dates the table's samples.
	Wall func() time.Time
	// Epoch is the epoch that was restored with the table.
	Epoch  *Epoch
	Logger *slog.Logger
}
