package window

import (
	"sync"

	"encoding/binary"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/memory"
)

// Logs is the memory of all history logs. An entry is the value of a number at the end of a tick. A
// log holds the entries of one number, as far back as the longest window reaches, in as much memory
// as they need.
//
// A log is a list of steps, the oldest first. A step is a change and the ticks since the step
// before. The newest value and its tick are in the History, so entries are decoded from there
// backwards.
//
// Taking and freeing logs locks; their contents belong to the holder of the series' history lock.
type Logs struct {
	Horizon uint32       // ticks: older notes are not asked for
	birth   uint32       // how many ticks after a series' birth its first note may come
	coarser []resolution // how finely counters remember what is older
	grow    func(bytes int64) bool
	memory  *memory.SizeClasses
}

// resolution merges entries older than some ticks: one for each so many ticks remains.
type resolution struct{ after, ticks uint32 }

const (
	logGrain = 16
	// plainLog is the size that a log may have regardless of maxBytes; the rest counts against it.
	plainLog = 128
	// fineTicks is the number of ticks that are always remembered one by one.
	fineTicks = 64
	// stepsPerWindow bounds the entries of a counter in a longer window: each covers 2 % of it.
	stepsPerWindow = 50
	// lateEntry is the time that the roller may take to visit a new series.
	lateEntry = 8 * time.Second
	// earlierEntries are kept beyond the longest window, for the value when the window began.
	earlierEntries = 2
)

// logSizes are the sizes of logs in bytes, by class.
var logSizes = []int{32, 48, 64, 80, 96, 112, plainLog, 160, 192, 224, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65520}

// logHead stands before the steps of a log.
type logHead struct {
	stamp uint32 // the tick of the newest step
	end   uint16 // where the next step goes
	last  uint16 // where the newest step begins
	class uint8
	// single is how many of the newest notes changed once in their tick, as far as the roller saw;
	// at most mostSingle.
	single uint8
	// shifted is set when older entries changed: the saved log is to be replaced.
	shifted bool
	_       byte
}

const mostSingle = 64

const logHeadBytes = int(unsafe.Sizeof(logHead{}))

// Entry is the value of a number at the end of a tick.
type Entry struct {
	Tick  uint32
	Value uint64
}

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

// resolutionOf is the number of ticks that one entry stands for at an age.
func (n *Logs) resolutionOf(age uint32) uint32 {
	ticks := uint32(1)
	for _, step := range n.coarser {
		if age > step.after {
			ticks = max(ticks, step.ticks)
		}
	}
	return ticks
}

// Before is the value before the oldest entry: zero if the series was just born, else unknown and
// taken as equal.
func (n *Logs) Before(oldest Entry, born uint32) uint64 {
	if oldest.Tick <= born+n.birth {
		return 0
	}
	return oldest.Value
}

func (n *Logs) head(log uint32) *logHead {
	return (*logHead)(n.memory.At(log))
}

// steps is the memory for the steps of a log.
func (h *logHead) steps() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(h), logHeadBytes)), logSizes[h.class]-logHeadBytes)
}

// take returns an empty log, or 0 if there is no memory.
func (n *Logs) take(class int) uint32 {
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

// give frees a log.
func (n *Logs) give(log uint32) {
	class := n.head(log).class
	if beyond := int64(logSizes[class] - plainLog); beyond > 0 {
		n.grow(-beyond)
	}
	n.memory.Free(log, int(class))
}

// Used returns the number of logs in use, and the bytes of all.
func (n *Logs) Used() (logs int, bytes int64) {
	return n.memory.Used()
}

// Locker is the allocator's lock, which the test of A1 holds.
func (n *Logs) Locker() sync.Locker { return n.memory.Locker() }

// classFor is the class of a log for so many bytes of steps, with room for an eighth more.
func (n *Logs) classFor(steps int) int { return n.memory.Class(steps + steps/8 + 8 + logHeadBytes) }

// A step is a change<<2 with two marks, so that most steps of counters that change every tick take
// one byte. A longer pause and a change that leaves no room for the marks follow as varints.
const (
	stepPaused = 1 << iota // more than one tick since the step before
	stepWide
	stepMarks = iota
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

// decodeStep takes the first step of a valid list.
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
