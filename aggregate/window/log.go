package window

import (
	"sync"

	"encoding/binary"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/memory"
)

// Logs allocates history logs. A log holds the entries of one number, as far back as the longest
// window reaches.
//
// A log is a list of steps, the oldest first. A step is a change and the ticks since the step
// before. The newest value is in the History, so entries are decoded from there backwards.
//
// Allocating and freeing a log takes the allocator's lock. The contents of a log belong to the
// holder of the series' history lock.
type Logs struct {
	Horizon uint32       // in ticks; no query needs older entries
	resumed uint32       // the tick in which the process resumed; 0: none
	birth   uint32       // the most ticks between a series' birth and its first entry
	coarser []resolution // of older entries of counters and timers
	grow    func(bytes int64) bool
	memory  *memory.SizeClasses
}

// resolution keeps only one of the entries in each group of ticks, once they are older than after.
type resolution struct{ after, ticks uint32 }

const (
	logGrain = 16
	// plainLog is the size up to which a log needs no memory budget. grow accounts for the rest.
	plainLog = 128
	// fineTicks is the age, in ticks, up to which entries are never merged.
	fineTicks = 64
	// stepsPerWindow is the number of merged entries in a longer window: each covers 2 % of it.
	stepsPerWindow = 50
	// lateEntry is the longest time until the roller visits a new series.
	lateEntry = 8 * time.Second
	// earlierEntries is the number of ticks that are kept beyond the longest window, for the value
	// at its start.
	earlierEntries = 2
)

// logSizes are the sizes of logs in bytes, by class.
var logSizes = []int{32, 48, 64, 80, 96, 112, plainLog, 160, 192, 224, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65520}

// logHead precedes the steps of a log.
type logHead struct {
	stamp uint32 // the tick of the newest step
	end   uint16 // offset of the next step
	last  uint16 // offset of the newest step
	class uint8
	// single is the number of newest entries in a row that changed only once in their tick, as far
	// as the roller saw; at most mostSingle.
	single uint8
	// shifted is set when older entries change: the next delta must replace the saved log.
	shifted bool
	// before is the length of the step before the newest one; 0: unknown, or there is none.
	before uint8
}

const mostSingle = 64

const logHeadBytes = int(unsafe.Sizeof(logHead{}))

// Entry is the value of a number at the end of a tick.
type Entry struct {
	Tick  uint32
	Value uint64
}

// NewLogs returns an allocator for these spans. grow accounts for memory beyond plainLog, and
// returns false if there is none.
func NewLogs(windows []Span, grow func(bytes int64) bool) *Logs {
	longest := windows[len(windows)-1].ticks
	n := &Logs{Horizon: longest + earlierEntries, grow: grow, memory: memory.NewSizeClasses(logGrain, logSizes)}
	n.birth = uint32(lateEntry*time.Duration(windows[0].ticks)/windows[0].Window) + 2
	for i := range windows {
		if ticks := windows[i].ticks; ticks > fineTicks {
			after := uint32(fineTicks)
			if i > 0 {
				after = max(after, windows[i-1].ticks)
			}
			n.coarser = append(n.coarser, resolution{after: after, ticks: ticks / stepsPerWindow})
		}
	}
	return n
}

// Resumed notes the tick in which the process resumed, if it was down for a tick or more. Call it once the
// histories are restored.
func (n *Logs) Resumed(c *Clock) {
	p := c.pauses.Load()
	if newest := len(p.all) - 1; newest >= 0 && p.all[newest].Down >= c.Tick {
		n.resumed = p.ticks[newest]
	}
}

// resolutionOf returns the number of ticks that one entry covers at an age.
func (n *Logs) resolutionOf(age uint32) uint32 {
	ticks := uint32(1)
	for _, step := range n.coarser {
		if age > step.after {
			ticks = max(ticks, step.ticks)
		}
	}
	return ticks
}

// Before returns the value before the oldest entry: zero if that is the first entry since the
// series' birth. Otherwise the value is unknown, and counts as equal to the oldest entry's.
func (n *Logs) Before(oldest Entry, born uint32) uint64 {
	if oldest.Tick <= born+n.birth {
		return 0
	}
	return oldest.Value
}

func (n *Logs) head(log uint32) *logHead {
	return (*logHead)(n.memory.At(log))
}

// steps returns the memory for the steps of a log.
func (h *logHead) steps() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(h), logHeadBytes)), logSizes[h.class]-logHeadBytes)
}

// alloc returns an empty log, or 0 if there is no memory.
func (n *Logs) alloc(class int) uint32 {
	beyond := int64(logSizes[class] - plainLog)
	if beyond > 0 && !n.grow(beyond) {
		return 0
	}
	log := n.memory.Alloc(class)
	if log == 0 {
		if beyond > 0 {
			n.grow(-beyond)
		}
		return 0
	}
	*n.head(log) = logHead{class: uint8(class), single: mostSingle}
	return log
}

// free frees a log.
func (n *Logs) free(log uint32) {
	class := n.head(log).class
	if beyond := int64(logSizes[class] - plainLog); beyond > 0 {
		n.grow(-beyond)
	}
	n.memory.Free(log, int(class))
}

// Used returns the number of allocated logs, and the bytes of all logs that were ever allocated.
func (n *Logs) Used() (logs int, bytes int64) {
	return n.memory.Used()
}

// Locker returns the allocator's lock. The test of A1 holds it to show that writers never wait for
// it.
func (n *Logs) Locker() sync.Locker { return n.memory.Locker() }

// classFor returns the size class for some bytes of steps, with an eighth of spare space.
func (n *Logs) classFor(steps int) int { return n.memory.Class(steps + steps/8 + 8 + logHeadBytes) }

// A step is a varint of change<<2 and two marks, so most steps of counters that change every tick
// take one byte. The marks announce further varints.
const (
	stepPaused = 1 << iota // the ticks since the step before follow; otherwise it is one tick
	stepWide               // the change follows, because its highest bits are in use
	stepMarks  = iota
)

const maxStep = 3 * binary.MaxVarintLen64

func encodeStep(dst []byte, ticks uint32, change uint64) []byte {
	marks := uint64(0)
	if ticks != 1 {
		marks = stepPaused
	}
	if change>>(64-stepMarks) != 0 {
		dst = binary.AppendUvarint(dst, marks|stepWide)
		dst = binary.AppendUvarint(dst, change)
	} else {
		dst = binary.AppendUvarint(dst, change<<stepMarks|marks)
	}
	if marks != 0 {
		dst = binary.AppendUvarint(dst, uint64(ticks))
	}
	return dst
}

// decodeStep decodes the first step of a valid list and returns the rest.
func decodeStep(list []byte) (ticks uint32, change uint64, rest []byte) {
	first, n := binary.Uvarint(list)
	list = list[n:]
	ticks, change = 1, first>>stepMarks
	if first&stepWide != 0 {
		change, n = binary.Uvarint(list)
		list = list[n:]
	}
	if first&stepPaused != 0 {
		pause, n := binary.Uvarint(list)
		ticks, list = uint32(pause), list[n:]
	}
	return ticks, change, list
}
