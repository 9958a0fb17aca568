package replica

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

var aSender = sender{name: "origin-1", epoch: 7, incarnation: 9}

var aSilentOrigin = silentOrigin{
	key: originKey{"origin-2", 5}, incarnation: 7, beats: 8, flush: 9, left: true, still: time.Minute, offset: -time.Second,
	digest: 1 << 60, clock: []byte("clock"),
}

// samples are bodies of each type.
func bodies() map[messageType][]byte {
	return map[messageType][]byte{
		typeDelta:     (&deltaBody{block: 3, seq: 9, flush: 70, first: true, delta: []byte("changes")}).append(nil),
		typeBeat:      (&beatBody{number: 4, sent: -5, flush: 6, blocks: 7, digest: 8, documents: 9, leaving: true, clock: []byte("clock")}).append(nil),
		typeWant:      (&wantBody{of: sender{"", 1, 2}, numbers: true, documents: true, silent: true, blocks: []int{5, 4000}}).append(nil),
		typeWhole:     (&wholeBody{block: 5, seq: 1, flush: 2, clock: []byte("clock"), names: []byte("names"), state: []byte("state")}).append(nil),
		typeNumbers:   (&numbersBody{seqs: []uint64{1, 0, 1 << 40}}).append(nil),
		typeDocuments: (&documentsBody{seq: 3, batch: 1, batches: 2, docs: []Document{{"a", 5, []byte("x")}, {"b", -1, nil}, {"c", 0, []byte{}}}}).append(nil),
		typeSync:      (&syncBody{of: sender{"", 1, 2}, flush: 3}).append(nil),
		typeSynced:    (&syncBody{of: sender{"", 1, 2}, flush: 3, removed: true}).append(nil),
		typeRelay:     (&relayBody{true, []string{"sluice-0", "sluice-2"}, []silentOrigin{aSilentOrigin, aSilentOrigin}}).append(nil),
		typeWantRelay: (&wantRelayBody{key: aSilentOrigin.key, versions: true, blocks: []int{5, 4000}}).append(nil),
		typeVersions:  (&versionsBody{aSilentOrigin, []version{{7, 3, 1 << 30}, {}, {2, 0, 0}}}).append(nil),
		typeRelayed:   (&relayedBody{aSilentOrigin.key, 3, version{7, 3, 9}, []byte("clock"), []byte("names"), []byte("state")}).append(nil),
	}
}

// message is a body that can be encoded.
type message[B any] interface {
	*B
	append(dst []byte) []byte
}

// reencode returns what reads a body and encodes it again.
func reencode[B any, M message[B]](read func([]byte) (B, error)) func([]byte) ([]byte, error) {
	return func(body []byte) ([]byte, error) {
		m, err := read(body)
		return M(&m).append(nil), err
	}
}

var reencoders = map[messageType]func([]byte) ([]byte, error){
	typeDelta: reencode(readDelta), typeBeat: reencode(readBeat), typeWant: reencode(readWant), typeWhole: reencode(readWhole),
	typeNumbers: reencode(readNumbers), typeDocuments: reencode(readDocuments), typeSync: reencode(readSync), typeSynced: reencode(readSync),
	typeRelay: reencode(readRelay), typeWantRelay: reencode(readWantRelay), typeVersions: reencode(readVersions), typeRelayed: reencode(readRelayed),
}

// again reads a body and encodes it again.
func again(kind messageType, body []byte) ([]byte, error) { return reencoders[kind](body) }

func TestMessagesAreReadAsWritten(t *testing.T) {
	for kind, body := range bodies() {
		if got, err := again(kind, body); err != nil || !bytes.Equal(got, body) {
			t.Errorf("type %d: %q, %v, want %q", kind, got, err, body)
		}
	}
	for _, want := range []header{
		{kind: typeBeat, sender: aSender, letter: 1 << 40, pieces: 1},
		{kind: typeWhole, sender: aSender, letter: 3, piece: 2, pieces: 3},
	} {
		got, piece, err := readHeader(append(want.append(nil), "piece"...))
		if err != nil || got != want || string(piece) != "piece" {
			t.Errorf("%+v, %q, %v, want %+v", got, piece, err, want)
		}
	}
}

func TestReadDocumentsKeepsNothingOfTheMessage(t *testing.T) {
	body := bodies()[typeDocuments]
	want, _ := readDocuments(body)
	got, _ := readDocuments(body)
	clear(body)
	if !reflect.DeepEqual(got, want) || got.docs[1].Value != nil || got.docs[2].Value == nil {
		t.Errorf("%v, want %v", got, want)
	}
}

// A prefix of a message is rejected, unless the rest of the message is free.
func TestShortMessages(t *testing.T) {
	for kind, body := range bodies() {
		for n := range body {
			got, err := again(kind, body[:n])
			if err == nil && !bytes.Equal(got, body[:n]) {
				t.Errorf("type %d, %d bytes: read as %q", kind, n, got)
			}
		}
	}
}

func FuzzHeader(f *testing.F) {
	h := header{kind: typeWhole, sender: aSender, letter: 3, piece: 2, pieces: 3}
	f.Add(append(h.append(nil), "piece"...))
	f.Fuzz(func(t *testing.T, message []byte) {
		h, piece, err := readHeader(message)
		if err != nil {
			return
		}
		if !validName(h.name) || h.piece >= h.pieces || h.pieces > maxPieces || len(piece) > len(message) {
			t.Errorf("%+v", h)
		}
	})
}

// FuzzBodies decodes bodies: none panics, and none takes more memory than in proportion to its
// size.
func FuzzBodies(f *testing.F) {
	for kind, body := range bodies() {
		f.Add(byte(kind), body)
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		k := typeDelta + messageType(kind)%typeRelayed
		first, err := again(k, body)
		if err != nil {
			return
		}
		second, err := again(k, first)
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("type %d: %q is read as %q, %v", k, first, second, err)
		}
	})
}

// FuzzReplica gives a replica that follows another one any message, on any subject.
func FuzzReplica(f *testing.F) {
	for kind, body := range bodies() {
		for _, h := range []header{{kind: kind, pieces: 1}, {kind: kind, pieces: 2, piece: 1}} {
			f.Add(byte(kind), append(h.append(nil)[18:], body...))
		}
	}
	future := bytes.Repeat([]byte{0xff}, 8)
	for n := range uint64(100) { // one of them follows the last delta
		f.Add(byte(typeRelayed), (&deltaBody{block: 1, seq: n / 10, flush: n % 10, delta: future}).append(nil))
	}
	f.Fuzz(func(t *testing.T, kind byte, rest []byte) {
		w := newWorld(t, 1, "a", "b")
		w.forged = true
		for range 20 {
			w.push(w.nodes[0])
			w.run(100 * time.Millisecond)
		}
		b := w.nodes[1].replica
		from := w.nodes[0].replica.me
		message := (&header{kind: typeDelta + messageType(kind)%typeRelayed, sender: from, pieces: 1}).append(nil)
		for _, forged := range [][]byte{append(message, rest...), append(message[:18:18], rest...), rest} {
			for _, topic := range []string{flowOf, wantOf, stateOf, syncedOf} {
				b.receive(b.subjects.of(topic, "a", "b"), forged)
			}
		}
		w.run(100 * time.Millisecond)
		if bytes := b.origins.sorted()[0].pending.bytes; bytes > maxPending {
			t.Errorf("%d bytes are pending", bytes)
		}
	})
}
