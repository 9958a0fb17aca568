package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/store/format"
)

// appendEntry appends an entry as Badger writes it.
func appendEntry(log []byte, flags byte, version uint64, value []byte) []byte {
	from := len(log)
	key := binary.BigEndian.AppendUint64([]byte("d0123"), math.MaxUint64-version)
	log = append(log, flags, 0)
	log = binary.AppendUvarint(log, uint64(len(key)))
	log = binary.AppendUvarint(log, uint64(len(value)))
	log = append(log, 0) // expiry
	log = append(append(log, key...), value...)
	return binary.BigEndian.AppendUint32(log, format.Checksum(log[from:]))
}

// A testLog is a log of some transactions in a database's folder.
type testLog struct {
	dir, path string
	content   []byte // with zeros at the end
	ends      []int  // of the transactions
}

func newTestLog(t *testing.T, transactions int) testLog {
	t.Helper()
	l := testLog{dir: t.TempDir(), content: []byte("\x00\x00\x00\x00\x00\x00\x00\x00random bytes")}
	l.path = filepath.Join(l.dir, "00001.mem")
	r := rand.New(rand.NewPCG(1, 2))
	for version := range uint64(transactions) {
		for range 1 + r.IntN(3) {
			value := make([]byte, r.IntN(60))
			for i := range value {
				value[i] = byte(r.Uint32())
			}
			l.content = appendEntry(l.content, flagTxn, version+7, value)
		}
		l.content = appendEntry(l.content, flagTxnEnd, version+7, strconv.AppendUint(nil, version+7, 10))
		l.ends = append(l.ends, len(l.content))
	}
	l.content = append(l.content, make([]byte, 10_000)...)
	l.write(t, l.content)
	return l
}

func (l testLog) write(t *testing.T, content []byte) {
	t.Helper()
	file, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o640) // ext4 writes a file back that is truncated to nothing
	must(t, err)
	_, err = file.WriteAt(content, 0)
	must(t, errors.Join(err, file.Truncate(int64(len(content))), file.Close()))
}

// setWatermark says that the log was synced up to the end of a transaction, in this boot or in
// another.
func (l testLog) setWatermark(t *testing.T, transactions int, thisBoot bool) (synced int) {
	t.Helper()
	w := NewWatermark(l.dir)
	l.write(t, append(bytes.Clone(l.content[:l.ends[transactions-1]]), make([]byte, 100)...))
	must(t, w.Observe())
	if !thisBoot {
		w.Boot = "another"
	}
	must(t, w.Write())
	position := ReadWatermark(l.dir).Positions[string(l.content[:HeaderBytes])]
	if want := (Position{int64(l.ends[transactions-1]) - HeaderBytes, uint64(transactions) + 6}); position != want {
		t.Fatalf("position %+v, want %+v", position, want)
	}
	l.write(t, l.content)
	return l.ends[transactions-1]
}

// committedBefore is the end of the last transaction that ends at a byte or before it.
func (l testLog) committedBefore(at int) (end int) {
	end = HeaderBytes
	for _, e := range l.ends {
		if e <= at {
			end = e
		}
	}
	return end
}

// TestEveryFlippedBit: a flipped bit is never read, and never passed over in silence. It is damage
// where the log was synced, and where only a process died; after a power cut the log is cut before
// it.
func TestEveryFlippedBit(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 9
	}
	for _, thisBoot := range []bool{true, false} {
		l := newTestLog(t, 30)
		synced := l.setWatermark(t, 15, thisBoot)
		written := l.ends[len(l.ends)-1]
		if remark, err := Check(l.dir); remark != "" || err != nil {
			t.Fatalf("a sound log: %q, %v", remark, err)
		}
		for at := HeaderBytes; at < written+50; at += step {
			content := bytes.Clone(l.content)
			content[at] ^= 1 << (at % 8)
			if read := Scan(content[HeaderBytes:]); read.Committed+HeaderBytes != l.committedBefore(at) {
				t.Fatalf("byte %d: read up to %d, want %d", at, read.Committed+HeaderBytes, l.committedBefore(at))
			}
			l.write(t, content)
			remark, err := Check(l.dir)
			isLast := at >= l.ends[len(l.ends)-2] // nothing valid follows, perhaps
			switch {
			case err != nil && !errors.Is(err, format.ErrDamaged):
				t.Fatal(err)
			case at < synced && err == nil:
				t.Fatalf("byte %d of %d synced: no damage", at, synced)
			case thisBoot && !isLast && err == nil:
				t.Fatalf("byte %d of %d written, and the machine did not restart: no damage", at, written)
			case !thisBoot && at >= synced && (err != nil || !strings.Contains(remark, "unfinished write")):
				t.Fatalf("byte %d after the %d synced, and the machine restarted: %q, %v", at, synced, remark, err)
			case err == nil && remark == "":
				t.Fatalf("byte %d: not a word", at)
			}
		}
	}
}

// TestEveryTornTail: a log that ends anywhere after the last sync costs the unfinished transaction
// alone.
func TestEveryTornTail(t *testing.T) {
	l := newTestLog(t, 12)
	synced, step := l.setWatermark(t, 6, true), 1
	if testing.Short() {
		step = 7
	}
	for end := HeaderBytes; end <= l.ends[len(l.ends)-1]; end += step {
		l.write(t, append(bytes.Clone(l.content[:end]), make([]byte, 500)...))
		remark, err := Check(l.dir)
		if damaged := errors.Is(err, format.ErrDamaged); damaged != (end < synced) {
			t.Fatalf("torn at %d, synced up to %d: %v", end, synced, err)
		}
		// Zeros at the end of an unfinished entry can't be told from the end of the log.
		if torn := l.committedBefore(end) != end && l.content[end-1] != 0; err == nil && torn && remark == "" {
			t.Fatalf("torn at %d: not a word", end)
		}
		must(t, Cut(l.dir))
		stat, err := os.Stat(l.path)
		if want := int64(l.committedBefore(end)); want == HeaderBytes && !errors.Is(err, os.ErrNotExist) || want > HeaderBytes && (err != nil || stat.Size() != want) {
			t.Fatalf("torn at %d: not cut to %d: %v", end, want, err)
		}
	}
}

// TestTornOlderLog: a killed process leaves an unfinished write in its last log alone. A machine
// that went down may leave one in any log.
func TestTornOlderLog(t *testing.T) {
	for _, thisBoot := range []bool{true, false} {
		l := newTestLog(t, 12)
		l.setWatermark(t, 6, thisBoot)
		newer := testLog{path: filepath.Join(l.dir, "00002.mem")}
		newer.write(t, append([]byte("\x00\x00\x00\x00\x00\x00\x00\x00other bytes "), l.content[HeaderBytes:]...))
		if remark, err := Check(l.dir); remark != "" || err != nil {
			t.Fatalf("two sound logs: %q, %v", remark, err)
		}
		l.write(t, append(bytes.Clone(l.content[:l.ends[8]-3]), make([]byte, 500)...))
		switch remark, err := Check(l.dir); {
		case thisBoot && !errors.Is(err, format.ErrDamaged):
			t.Errorf("the process was killed: %q, %v; want damage", remark, err)
		case !thisBoot && (err != nil || !strings.Contains(remark, "unfinished write")):
			t.Errorf("the machine went down: %q, %v; want a remark", remark, err)
		}
	}
}

// TestEntriesOfTwoTransactions: a transaction ends with entries of its own version alone, as Badger
// reads it.
func TestEntriesOfTwoTransactions(t *testing.T) {
	whole := appendEntry(appendEntry(nil, flagTxn, 7, nil), flagTxnEnd, 7, []byte("7"))
	mixed := appendEntry(appendEntry(whole, flagTxn, 8, nil), flagTxn, 9, nil)
	if x := Scan(appendEntry(mixed, flagTxnEnd, 9, []byte("9"))); x.Committed != len(whole) || x.Version != 7 {
		t.Errorf("%+v, want the %d bytes of version 7", x, len(whole))
	}
}

// TestLostVersion: a synced log that is missing held versions that a table must have.
func TestLostVersion(t *testing.T) {
	l := newTestLog(t, 10)
	l.setWatermark(t, 10, true)
	if lost, err := LostVersion(l.dir); lost != 0 || err != nil {
		t.Errorf("lost %d, %v", lost, err)
	}
	must(t, os.Remove(l.path))
	if lost, err := LostVersion(l.dir); lost != 16 || err != nil {
		t.Errorf("lost %d, %v; want 16", lost, err)
	}
	text, err := os.ReadFile(filepath.Join(l.dir, watermarkName))
	must(t, err)
	text[100] ^= 1
	must(t, os.WriteFile(filepath.Join(l.dir, watermarkName), text, 0o640))
	if lost, err := LostVersion(l.dir); lost != 0 || err != nil {
		t.Errorf("with a damaged watermark: lost %d, %v", lost, err)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
