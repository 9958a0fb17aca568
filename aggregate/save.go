package aggregate

import (
	"encoding/binary"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/internal/fair"
)

// formatVersion is the version of all blobs. The clock's blob holds it. Replicas write
// replicaFormat, so that a version that would lose their additions refuses the blobs.
// A table that frames are applied to writes fedFormat or fedReplicaFormat, until its feeds are forgotten.
const (
	formatVersion    = 5
	replicaFormat    = 6
	fedFormat        = 7
	fedReplicaFormat = 8
)

// Format 1 dates samples in Unix seconds of the wall clock and has no lifetime clock. Format 3 has
// the tick of the last pause instead of all pauses. Up to format 4, clients' dates are in seconds.
const (
	oldestFormat   = 1
	unixStamps     = 1
	resumedAlone   = 3
	replicaSeconds = 4
)

// Record types of a delta. Replaying a delta's records in order is idempotent: the restored state
// may already include some or all of the changes.
const (
	recordBirth      = 'C'
	recordUndated    = 'B' // a birth of older formats, without its date
	recordSpelledOut = 'b' // a birth of older formats, with all its strings
	recordDeath      = 'd'
	recordValue      = 'v'
	recordAlike      = 'a' // a value with the mark of the previous value

	recordNumbers      = 'N' // a run of plain numbers, see deltas.go
	recordNumbersAlike = 'M' // a run with the mark of the previous value
	recordUnitRun      = 'n' // a run of older formats
	recordUnitRunAlike = 'm' // a run of older formats with the mark of the previous value

	recordOrdered = 'O' // numbers from here on have stamps at the end of the delta, see deltas.go
	recordStamps  = 'S' // the stamps of gauges

	recordFrames = 'F' // the last frames that the block includes, see frames.go
)

// Blocks is the number of blocks of 1,024 series. It never decreases.
func (t *Table) Blocks() int { return int(t.blocks.made.Load()) }

// NamesChanged reports whether series of a block were born or died since AppendNames last wrote it.
func (t *Table) NamesChanged(block int) bool { return t.blocks.at[block].Load().renamed.Load() }

// AppendClock appends the state that the next process continues: the receiving time, the windows,
// which define the ticks of saved histories, the seed of set members' hashes, and the lifetime
// clock.
func (t *Table) AppendClock(dst []byte) []byte {
	now, machine := t.Clock.Now(), t.Clock.Uptime()
	feeds, connected := t.feeding()
	dst = append(dst, t.format(feeds > 0))
	dst = binary.AppendUvarint(dst, uint64(now.At))
	dst = binary.AppendVarint(dst, now.Wall.UnixNano())
	dst = binary.LittleEndian.AppendUint64(dst, t.SetSeed.Load())
	dst = binary.AppendUvarint(dst, uint64(len(t.Spans)))
	for _, s := range t.Spans {
		dst = binary.AppendUvarint(dst, uint64(s.Window/time.Second))
	}
	dst = binary.AppendUvarint(dst, uint64(min(now.Life, window.LongestLife)))
	dst = binary.AppendVarint(dst, now.Epoch.UnixNano())
	dst = binary.AppendUvarint(blob.AppendString(dst, machine.Boot), uint64(machine.Up))
	if t.config.Replicated {
		dst = appendPauses(dst, t.Clock.Pauses())
	}
	switch {
	case feeds == 0:
	case connected:
		dst = append(dst, 1)
	default:
		dst = append(dst, 0)
	}
	return dst
}

// appendPauses appends the pauses of a clock. Replicas that start know them from here only.
func appendPauses(dst []byte, all []window.Pause) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for _, p := range all {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(p.At)), uint64(p.Down))
	}
	return dst
}

// format is the version that a table writes. fed: frames are applied to it.
func (t *Table) format(fed bool) byte {
	switch {
	case t.Replicated && fed:
		return fedReplicaFormat
	case fed:
		return fedFormat
	case t.Replicated:
		return replicaFormat
	}
	return formatVersion
}

// AppendNames appends the identities of a block's series.
func (t *Table) AppendNames(dst []byte, block int) []byte {
	t.blocks.at[block].Load().renamed.Store(false)
	return t.AppendBlockNames(dst, block)
}

// AppendBlockNames is AppendNames without an effect on NamesChanged. Any goroutine may call it.
func (t *Table) AppendBlockNames(dst []byte, block int) []byte {
	b := t.blocks.at[block].Load()
	dst = binary.AppendUvarint(dst, datedNames)
	var said nameWriter
	for place := range uint32(kind.BlockSeries) {
		dst = b.appendName(dst, place, &said)
	}
	return dst
}

func (b *block) appendName(dst []byte, place uint32, said *nameWriter) []byte {
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load()&kind.Live == 0 {
		return dst
	}
	return said.appendLocked(dst, b, place)
}

// AppendState appends the values and windows of all series of a block, and the last frames that they include.
// The names, which follow, have every one of the series.
func (t *Table) AppendState(dst []byte, block int) []byte {
	b := t.blocks.at[block].Load()
	t.frames.applying.Lock() // the marks and the values are of one moment
	defer t.frames.applying.Unlock()
	marked := b.feeds.appendAll(dst, &t.frames)
	fed := len(marked) > len(dst)
	if dst = marked; fed {
		t.rollBlock(b, t.Clock.Now(), &pace{time.Now()}) // the values include what was applied
	}
	for place := range uint32(kind.BlockSeries) {
		dst = t.appendValue(dst, b, place, fed, 0)
	}
	return dst
}

// blockStateBytes bounds AppendBlockState, but for what values have without units. A block of small
// series has a tenth of it; one of 1,024 large histograms would have 200 MB, several times in the
// memory of both replicas.
const blockStateBytes = 24 << 20

// AppendBlockState is AppendState for another replica: within a bound, and without the frames, of which
// AppendState says each change once. Any goroutine may call it.
func (t *Table) AppendBlockState(dst []byte, block int) []byte {
	b, at := t.blocks.at[block].Load(), len(dst)
	for place := range uint32(kind.BlockSeries) {
		if dst = t.appendValue(dst, b, place, false, 0); len(dst)-at > blockStateBytes {
			return t.appendShares(dst[:at], b)
		}
	}
	return dst
}

// appendShares appends the values of a block within blockStateBytes: of those above their part the
// units in progress, or none. So percentiles and members of these cover less than the window until it
// has passed. Values, totals and histories are small, and complete.
func (t *Table) appendShares(dst []byte, b *block) []byte {
	const none = math.MaxUint32 - 1
	sizes, namespaces := t.sizesOf(dst, b)
	parts := partsOf(&sizes, &namespaces, blockStateBytes)
	now := t.Clock.Now().Tick
	for place := range uint32(kind.BlockSeries) {
		at, part := len(dst), parts[namespaces[place]]
		for _, sinceUnits := range [...]uint32{0, now, none} {
			if sinceUnits == 0 && sizes[place] > part {
				continue
			}
			if dst = t.appendValue(dst[:at], b, place, false, sinceUnits); len(dst)-at <= part {
				break
			}
		}
	}
	return dst
}

// sizesOf returns the sizes of a block's values, and whose they are. scratch is space to encode them.
func (t *Table) sizesOf(scratch []byte, b *block) (sizes [kind.BlockSeries]int, of [kind.BlockSeries]string) {
	for place := range uint32(kind.BlockSeries) {
		sizes[place] = len(t.appendValue(scratch, b, place, false, 0)) - len(scratch)
		of[place] = b.namespaceOf(place)
	}
	return sizes, of
}

// namespaceOf is empty for a place without a series.
func (b *block) namespaceOf(place uint32) string {
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load()&kind.Live == 0 {
		return ""
	}
	return b.series[place].entry.Family.Key.Namespace
}

// partsOf is the most that a value of each namespace may have of a budget. It is divided among
// namespaces, then among the values of each, so what one has is cut for its own alone.
func partsOf(sizes *[kind.BlockSeries]int, of *[kind.BlockSeries]string, budget int) map[string]int {
	sums, values := map[string]int{}, map[string][]int{}
	for place, size := range sizes {
		sums[of[place]] += size
		values[of[place]] = append(values[of[place]], size)
	}
	part := fair.Part(budget, slices.Collect(maps.Values(sums)))
	parts := map[string]int{}
	for namespace, sizes := range values {
		parts[namespace] = fair.Part(min(part, sums[namespace]), sizes)
	}
	return parts
}

// mark holds the fields of a value that are equal for most values of a delta: when the last sample
// came, the lifetime, and the tick of the last record (window.History.Stamp). Values that changed
// in one tick mostly have the same mark, so a delta writes it once for them.
type mark struct{ seen, ttl, stamp uint32 }

func (m mark) append(dst []byte) []byte {
	for _, v := range [...]uint32{m.seen, m.ttl, m.stamp} {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	return dst
}

// AppendDelta appends the changes of a block since its previous delta: births and deaths, then
// values. It rolls the block first, so the delta includes every sample applied before the call.
func (t *Table) AppendDelta(dst []byte, block int) []byte {
	b := t.blocks.at[block].Load()
	t.frames.applying.Lock()
	defer t.frames.applying.Unlock()
	return b.feeds.appendChanged(t.appendBlockDelta(dst, b), &t.frames)
}

// AppendPublished is AppendDelta for other replicas alone: without the frames, which are for the disk. The
// block's next delta or state that is written says what it includes.
func (t *Table) AppendPublished(dst []byte, block int) []byte {
	t.frames.applying.Lock()
	defer t.frames.applying.Unlock()
	return t.appendBlockDelta(dst, t.blocks.at[block].Load())
}

func (t *Table) appendBlockDelta(dst []byte, b *block) []byte {
	now := t.Clock.Now()
	pace := pace{time.Now()}
	t.rollBlock(b, now, &pace)
	var said nameWriter
	for word := range kind.BlockWords {
		if b.unnamed[word].Load() == 0 {
			continue
		}
		set := b.unnamed[word].Swap(0)
		b.prefetchNews(word, set)
		for ; set != 0; set &= set - 1 {
			dst = b.appendNews(dst, uint32(word*64+bits.TrailingZeros64(set)), &said)
		}
	}
	d := delta{t: t, b: b, dst: dst}
	for word := range kind.BlockWords {
		if b.unsaved[word].Load() != 0 {
			d.appendChanges(word, &pace)
		}
	}
	b.saved = now.Tick - min(now.Tick, 1)
	d.appendStamps()
	return d.dst
}

// delta appends the values of a delta.
type delta struct {
	t      *Table
	b      *block
	dst    []byte
	before mark // of the previous value
	run    run
	notes  []window.Entry // scratch space
	stamps []stampNote    // of the gauges in runs
}

// prefetchNews prefetches the memory that births among 64 series are encoded from: the entries,
// then the names of their objects.
func (b *block) prefetchNews(word int, set uint64) {
	var entries [64]*index.Entry
	n := 0
	b.history.Lock()
	for ; set != 0; set &= set - 1 {
		place := word*64 + bits.TrailingZeros64(set)
		if b.page.cells[place].State.Load()&kind.Live != 0 {
			entries[n] = b.series[place].entry
			n++
		}
	}
	b.history.Unlock()
	var ahead [2 * 64]uintptr
	for i, e := range entries[:n] {
		ahead[2*i], ahead[2*i+1] = e.Ends()
	}
	memory.Prefetch(ahead[:2*n])
	for i, e := range entries[:n] {
		ahead[i] = uintptr(unsafe.Pointer(unsafe.StringData(e.Name)))
	}
	memory.Prefetch(ahead[:n])
}

// appendNews appends a birth or a death.
func (b *block) appendNews(dst []byte, place uint32, said *nameWriter) []byte {
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load()&kind.Live == 0 {
		return binary.AppendUvarint(append(dst, recordDeath), uint64(place))
	}
	// Save a value with each birth, even before the first sample is recorded: a gauge whose first
	// sample is being applied, or a counter of 0.
	b.unsaved.Mark(place)
	return said.appendLocked(append(dst, recordBirth), b, place)
}

// appendChanges appends the values of the changed series among 64.
func (d *delta) appendChanges(word int, pace *pace) {
	b := d.b
	b.history.Lock()
	set := b.unsaved[word].Swap(0)
	d.t.prefetchLocked(b, word, set)
	for ; set != 0; set &= set - 1 {
		place := uint32(word*64 + bits.TrailingZeros64(set))
		switch {
		case !b.savableLocked(place, false):
		case b.plainLocked(place):
			d.appendNumberLocked(place)
		default:
			d.appendChangeLocked(place)
			b.history.Unlock()
			pace.step() // a series with a body may take as long as many plain numbers
			b.history.Lock()
		}
	}
	b.history.Unlock()
	pace.step()
}

// appendChangeLocked appends a value as a record of its own. It omits a mark that equals the
// previous value's.
func (d *delta) appendChangeLocked(place uint32) {
	b, own := d.b, d.b.markLocked(place)
	kind := byte(recordValue)
	if own == d.before {
		kind = recordAlike
	}
	d.dst = append(d.dst, kind, 0)
	at := len(d.dst) - 1
	d.dst = b.appendOwnerLocked(d.dst, place)
	if kind == recordValue {
		d.dst = own.append(d.dst)
	}
	d.dst = sized(d.t.appendValueLocked(d.dst, b, place, b.saved, b.saved), at)
	d.before, d.run = own, run{}
}

// appendValue appends the length of a series' value, then the value with its whole history. In a fed block it
// has every value that was recorded: the marks of the block say so. Records by units are those from tick sinceUnits on.
func (t *Table) appendValue(dst []byte, b *block, place uint32, fed bool, sinceUnits uint32) []byte {
	b.history.Lock()
	defer b.history.Unlock()
	if !b.savableLocked(place, fed && b.page.cells[place].History.Stamp != 0) {
		return dst
	}
	at := len(dst)
	dst = b.markLocked(place).append(b.appendOwnerLocked(append(dst, 0), place))
	return sized(t.appendValueLocked(dst, b, place, 0, sinceUnits), at)
}

// savableLocked reports whether a series' value may be saved: the series is live, and its birth is saved or
// will be, with the names that follow. A value without a saved birth stays marked for the next delta: the
// sample that the series was born for may not be applied yet.
func (b *block) savableLocked(place uint32, named bool) bool {
	if b.page.cells[place].State.Load()&kind.Live == 0 {
		return false
	}
	if b.unnamed.Has(place) && !named {
		b.unsaved.Mark(place)
		return false
	}
	return true
}

// appendOwnerLocked appends the series that a value belongs to: its place, and its state, because
// places are reused.
func (b *block) appendOwnerLocked(dst []byte, place uint32) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(place)), uint64(b.savedState(place)))
}

func (b *block) markLocked(place uint32) mark {
	c := &b.page.cells[place]
	return mark{c.Seen.Load(), b.page.ttls[place].Load(), c.History.Stamp}
}

// sized writes the length of the bytes after at, as a varint, at that index. The caller left one
// byte for it; longer varints move the bytes.
func sized(dst []byte, at int) []byte {
	size := uint64(len(dst) - at - 1)
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], size)
	dst = append(dst, head[1:n]...)
	copy(dst[at+n:], dst[at+1:at+1+int(size)])
	copy(dst[at:], head[:n])
	return dst
}

func (t *Table) appendValueLocked(dst []byte, b *block, place, since, sinceUnits uint32) []byte {
	if body := b.body(place); since > 0 && body != nil && body.Rewritten {
		sinceUnits, body.Rewritten = 0, false
	}
	return kind.Of(b.page.kinds[place]).SaveLocked(&t.Env, dst, b.handle(place), since, sinceUnits)
}
