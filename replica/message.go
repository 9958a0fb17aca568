package replica

import (
	"encoding/binary"
	"errors"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

// A message is a header and a piece of a body. Bodies larger than maxPiece are sent in pieces:
//
//	version  type  epoch (8 bytes)  incarnation (8 bytes)  name
//	letter  index of the piece  number of pieces  piece
//
// The letter numbers the bodies of an incarnation. All integers but epoch and incarnation are
// varints.

// protocolVersion is the first byte of each message. Messages of another version are rejected.
const protocolVersion = 1

const (
	// maxPiece bounds a message: NATS refuses messages of more than a megabyte by default.
	maxPiece = 512 << 10
	// maxBody bounds a body, and maxPieces its pieces.
	maxBody   = 64 << 20
	maxPieces = maxBody / maxPiece
)

type messageType byte

const (
	typeDelta messageType = iota + 1
	typeBeat
	typeWant
	typeWhole
	typeNumbers
	typeDocuments
	typeSync
	typeSynced
	typeRelay
	typeWantRelay
	typeVersions
	typeRelayed
	typeUsage
	typeWantUsage
	typeAsk
	typeAnswer
	typeUnsent // a delta without its changes; older versions count it as damaged, and compare digests
)

var (
	errVersion = errors.New("protocol version is not known")
	errDamaged = errors.New("message is damaged")
)

// sender is a process that sends.
type sender struct {
	name        string
	epoch       uint64
	incarnation uint64
}

// header is the beginning of a message.
type header struct {
	kind messageType
	sender
	letter uint64
	piece  int
	pieces int
}

func (h *header) append(dst []byte) []byte {
	dst = append(dst, protocolVersion, byte(h.kind))
	dst = binary.LittleEndian.AppendUint64(dst, h.epoch)
	dst = binary.LittleEndian.AppendUint64(dst, h.incarnation)
	dst = blob.AppendString(dst, h.name)
	dst = binary.AppendUvarint(dst, h.letter)
	dst = binary.AppendUvarint(dst, uint64(h.piece))
	return binary.AppendUvarint(dst, uint64(h.pieces))
}

// readHeader reads the header of a message and returns the piece after it, which borrows from the
// message.
func readHeader(message []byte) (h header, piece []byte, err error) {
	d := blob.Decoder{Rest: message}
	if version := d.Byte(); d.Err == nil && version != protocolVersion {
		return h, nil, errVersion
	}
	h.kind = messageType(d.Byte())
	h.epoch, h.incarnation = d.Uint64(), d.Uint64()
	name := d.Bytes(d.Uvarint())
	h.letter = d.Uvarint()
	index, count := d.Uvarint(), d.Uvarint()
	valid := d.Err == nil && len(name) <= longestName && index < count && count <= maxPieces && len(d.Rest) <= maxPiece &&
		(index == count-1 || len(d.Rest) == maxPiece) && typeDelta <= h.kind && h.kind <= typeUnsent
	if !valid {
		return h, nil, errDamaged
	}
	if h.name = string(name); !validName(h.name) {
		return h, nil, errDamaged
	}
	h.piece, h.pieces = int(index), int(count)
	return h, d.Rest, nil
}

// maxBlocks bounds the number of a block. It is that of a table.
const maxBlocks = 1 << 14

func readBlock(d *blob.Decoder) int {
	v := d.Uvarint()
	if v >= maxBlocks {
		d.Fail()
		return 0
	}
	return int(v)
}

func bit(set bool, value byte) byte {
	if set {
		return value
	}
	return 0
}

// deltaBody is one delta of a block.
type deltaBody struct {
	block int
	seq   uint64 // of the block, from 1 on
	flush uint64 // the flush that it belongs to
	first bool   // the block was empty before
	delta []byte
	// unsent: the changes are too large to be sent; not in the body
	unsent bool
}

const flagFirst = 1

func (m *deltaBody) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(m.block))
	dst = binary.AppendUvarint(dst, m.seq)
	dst = binary.AppendUvarint(dst, m.flush)
	dst = append(dst, bit(m.first, flagFirst))
	return append(dst, m.delta...)
}

func readDelta(body []byte) (m deltaBody, err error) {
	d := blob.Decoder{Rest: body}
	m.block, m.seq, m.flush, m.first = readBlock(&d), d.Uvarint(), d.Uvarint(), d.Byte()&flagFirst != 0
	if d.Err != nil || m.seq == 0 {
		return deltaBody{}, errDamaged
	}
	m.delta = d.Rest
	return m, nil
}

// beatBody is a heartbeat.
type beatBody struct {
	number    uint64 // of the incarnation's heartbeats
	sent      int64  // Unix nanoseconds of the origin's clock
	flush     uint64 // the newest flush
	blocks    int    // after that flush
	digest    uint64 // of the blocks' numbers after that flush
	documents uint64 // the number of the newest documents message
	leaving   bool   // the process ends, and this is its last state
	unwritten bool   // a part of that flush is not on the origin's disk
	clock     []byte // at the end of that flush
}

const (
	flagLeaving   = 1
	flagUnwritten = 2
	longestClock  = 4 << 10
)

func (m *beatBody) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, m.number)
	dst = binary.AppendVarint(dst, m.sent)
	dst = binary.AppendUvarint(dst, m.flush)
	dst = binary.AppendUvarint(dst, uint64(m.blocks))
	dst = binary.LittleEndian.AppendUint64(dst, m.digest)
	dst = binary.AppendUvarint(dst, m.documents)
	return append(append(dst, bit(m.leaving, flagLeaving)|bit(m.unwritten, flagUnwritten)), m.clock...)
}

func readBeat(body []byte) (m beatBody, err error) {
	d := blob.Decoder{Rest: body}
	m.number, m.sent, m.flush, m.blocks = d.Uvarint(), d.Varint(), d.Uvarint(), readBlock(&d)
	m.digest, m.documents = d.Uint64(), d.Uvarint()
	flags := d.Byte()
	m.leaving, m.unwritten = flags&flagLeaving != 0, flags&flagUnwritten != 0
	if d.Err != nil || len(d.Rest) > longestClock {
		return beatBody{}, errDamaged
	}
	m.clock = d.Rest
	return m, nil
}

// wantBody asks an incarnation of an origin for whole blocks, for the numbers of all blocks, for its
// documents, or for the silent origins that it has a shadow of.
type wantBody struct {
	of        sender // without a name
	numbers   bool
	documents bool
	silent    bool // asks for the announcement of silent origins
	blocks    []int
}

const (
	flagNumbers   = 1
	flagDocuments = 2
	flagSilent    = 4
	// maxAsked bounds the blocks that one message asks for.
	maxAsked = 256
)

func (m *wantBody) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, m.of.epoch)
	dst = binary.LittleEndian.AppendUint64(dst, m.of.incarnation)
	dst = append(dst, bit(m.numbers, flagNumbers)|bit(m.documents, flagDocuments)|bit(m.silent, flagSilent))
	dst = binary.AppendUvarint(dst, uint64(len(m.blocks)))
	for _, b := range m.blocks {
		dst = binary.AppendUvarint(dst, uint64(b))
	}
	return dst
}

// readAsked reads the numbers of the blocks that are asked for.
func readAsked(d *blob.Decoder) (blocks []int) {
	n := d.Uvarint()
	if n > maxAsked {
		d.Fail()
	}
	for ; n > 0 && d.Err == nil; n-- {
		blocks = append(blocks, readBlock(d))
	}
	return blocks
}

func readWant(body []byte) (m wantBody, err error) {
	d := blob.Decoder{Rest: body}
	m.of.epoch, m.of.incarnation = d.Uint64(), d.Uint64()
	flags := d.Byte()
	m.numbers, m.documents, m.silent = flags&flagNumbers != 0, flags&flagDocuments != 0, flags&flagSilent != 0
	m.blocks = readAsked(&d)
	if d.Err != nil || len(d.Rest) > 0 {
		return wantBody{}, errDamaged
	}
	return m, nil
}

// wholeBody is a block as of its delta seq or later, and before the end of the next flush.
type wholeBody struct {
	block               int
	seq                 uint64 // 0: before the first delta of the incarnation
	flush               uint64 // the newest flush that had ended
	clock, names, state []byte // the clock is not earlier than the state
	letter              uint64 // of the message; not in the body
}

func (m *wholeBody) bytes() int { return len(m.clock) + len(m.names) + len(m.state) }

func (m *wholeBody) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(m.block))
	dst = binary.AppendUvarint(dst, m.seq)
	dst = binary.AppendUvarint(dst, m.flush)
	dst = binary.AppendUvarint(dst, uint64(len(m.clock)))
	dst = binary.AppendUvarint(append(dst, m.clock...), uint64(len(m.names)))
	return append(append(dst, m.names...), m.state...)
}

func readWhole(body []byte) (m wholeBody, err error) {
	d := blob.Decoder{Rest: body}
	m.block, m.seq, m.flush = readBlock(&d), d.Uvarint(), d.Uvarint()
	m.clock = d.Bytes(d.Uvarint())
	m.names = d.Bytes(d.Uvarint())
	if d.Err != nil || len(m.clock) > longestClock {
		return wholeBody{}, errDamaged
	}
	m.state = d.Rest
	return m, nil
}

// numbersBody lists the newest number of each block.
type numbersBody struct {
	seqs []uint64
}

func (m *numbersBody) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m.seqs)))
	for _, seq := range m.seqs {
		dst = binary.AppendUvarint(dst, seq)
	}
	return dst
}

func readNumbers(body []byte) (m numbersBody, err error) {
	d := blob.Decoder{Rest: body}
	n := d.Uvarint()
	if d.Err != nil || n > uint64(len(d.Rest)) || n > maxBlocks { // a number has a byte at least
		return m, errDamaged
	}
	m.seqs = make([]uint64, n)
	for i := range m.seqs {
		m.seqs[i] = d.Uvarint()
	}
	if d.Err != nil || len(d.Rest) > 0 {
		return numbersBody{}, errDamaged
	}
	return m, nil
}

// documentsBody holds the documents of one change, or one of the batches of all documents.
type documentsBody struct {
	seq     uint64 // counts the changes of an incarnation
	batch   int
	batches int // 0: the documents of one change
	docs    []Document
}

// maxBatches bounds the batches of an origin's documents.
const maxBatches = 1 << 12

func (m *documentsBody) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, m.seq)
	dst = binary.AppendUvarint(dst, uint64(m.batch))
	dst = binary.AppendUvarint(dst, uint64(m.batches))
	for _, doc := range m.docs {
		dst = appendDocument(dst, doc)
	}
	return dst
}

func appendDocument(dst []byte, document Document) []byte {
	dst = binary.AppendVarint(blob.AppendString(dst, document.Key), document.Stamp)
	if document.Value == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(append(dst, 1), uint64(len(document.Value)))
	return append(dst, document.Value...)
}

func readDocuments(body []byte) (m documentsBody, err error) {
	d := blob.Decoder{Rest: body}
	m.seq = d.Uvarint()
	batch, batches := d.Uvarint(), d.Uvarint()
	if batches > maxBatches || batches > 0 && batch >= batches {
		d.Fail()
	}
	m.batch, m.batches = int(batch), int(batches)
	for d.More() {
		if len(m.docs) > batchBytes/documentBytes {
			d.Fail()
			break
		}
		document := Document{Key: d.String(), Stamp: d.Varint()}
		if d.Byte() != 0 {
			document.Value = append([]byte{}, d.Bytes(d.Uvarint())...)
		}
		m.docs = append(m.docs, document)
	}
	if d.Err != nil {
		return documentsBody{}, errDamaged
	}
	return m, nil
}

// syncBody asks every follower whether it has applied a flush. A follower that has returns it.
type syncBody struct {
	of    sender // the incarnation whose flush it is, without a name
	flush uint64
	// removed: and whether what the follower's table lost by the documents before that flush is gone from every
	// live replica.
	removed bool
}

const flagRemoved = 1

func (m *syncBody) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, m.of.epoch)
	dst = binary.LittleEndian.AppendUint64(dst, m.of.incarnation)
	return append(binary.AppendUvarint(dst, m.flush), bit(m.removed, flagRemoved))
}

func readSync(body []byte) (m syncBody, err error) {
	d := blob.Decoder{Rest: body}
	m.of.epoch, m.of.incarnation, m.flush = d.Uint64(), d.Uint64(), d.Uvarint()
	m.removed = d.Byte()&flagRemoved != 0
	if d.Err != nil || len(d.Rest) > 0 {
		return syncBody{}, errDamaged
	}
	return m, nil
}
