package replica

import (
	"slices"
	"strings"
	"time"
)

// batchBytes is the size from which a batch of documents is closed. A document counts with its key,
// its value and documentBytes.
const (
	batchBytes    = maxPiece / 2
	documentBytes = 16
)

// publishDocuments sends the documents that changed since the last flush. It returns the number of
// its messages.
func (r *Replica) publishDocuments() uint64 {
	if r.parts.Documents == nil {
		return 0
	}
	changed := r.parts.Documents.TakeChanged()
	if len(changed) == 0 {
		return 0
	}
	seq := r.publisher.changeOf()
	batches := batchesOf(changed)
	var buffer []byte
	for i, batch := range batches {
		m := documentsBody{seq: seq + uint64(i) + 1, docs: batch}
		buffer = r.send(r.subjects.of(flowOf, r.me.name, topicDoc), typeDocuments, m.append(nil), buffer)
	}
	return uint64(len(batches))
}

// documentsAnswer has all documents of one moment, for a replica that asked for them. There may be hundreds of megabytes,
// so they are sent batch by batch, and between those what others ask for: a receiver that is given more than it can apply
// drops the rest. One replica is answered at a time, so they are in memory once.
type documentsAnswer struct {
	to      string
	batches [][]Document // nil: they are not read yet
	next    documentsBody
	due     time.Time // of the next batch
}

// documentsEvery is the least time between two batches: some 50 MB/s.
const documentsEvery = 5 * time.Millisecond

// read reads all documents. News after it have higher numbers, so its number is read before.
func (d *documentsAnswer) read(r *Replica) {
	d.next.seq = r.publisher.changeOf()
	all := r.parts.Documents.All()
	slices.SortFunc(all, func(a, b Document) int { return strings.Compare(a.Key, b.Key) }) // batches of two answers may meet
	if d.batches = batchesOf(all); len(d.batches) == 0 {
		d.batches = [][]Document{nil}
	}
	d.next.batches = len(d.batches)
}

// sendDocuments sends the next batch of the documents that a replica has asked for.
func (s *server) sendDocuments() {
	d := s.documents
	if d.batches == nil {
		d.read(s.r)
	}
	d.next.docs = d.batches[d.next.batch]
	s.body = d.next.append(s.body[:0])
	s.buffer = s.r.send(s.r.subjects.of(stateOf, s.r.me.name, d.to), typeDocuments, s.body, s.buffer)
	s.trim()
	clear(d.next.docs) // frees them
	d.due = s.r.now().Add(documentsEvery)
	if d.next.batch++; d.next.batch == d.next.batches {
		s.mu.Lock()
		s.documents = nil
		s.mu.Unlock()
	}
}

// batchesOf divides documents into messages.
func batchesOf(docs []Document) (batches [][]Document) {
	from, bytes := 0, 0
	for i := range docs {
		if bytes += documentBytes + len(docs[i].Key) + len(docs[i].Value); bytes >= batchBytes {
			batches, from, bytes = append(batches, docs[from:i+1]), i+1, 0
		}
	}
	if from < len(docs) {
		batches = append(batches, docs[from:])
	}
	return batches
}

// followedDocuments is how far a follower has the documents of its origin.
type followedDocuments struct {
	seq     uint64 // the newest change that is applied, with all before it
	known   bool   // the origin has sent all of its documents
	all     uint64 // seq of the batches that are arriving
	arrived []bool // of the batches
	left    int
	// The changes after one and up to another are applied: the last ones that came, without a gap. All documents may take
	// long to come, and those that changed meanwhile would be asked for again, as often.
	after, upTo uint64
}

// enter notes a message of documents. All are applied, in whatever order they arrive; the numbers
// only tell whether one is missing.
func (d *followedDocuments) enter(m *documentsBody) {
	if m.batches == 0 {
		d.enterChange(m.seq)
	} else {
		d.enterBatch(m)
	}
	if d.known && d.after <= d.seq {
		d.seq = max(d.seq, d.upTo)
	}
}

func (d *followedDocuments) enterChange(seq uint64) {
	switch {
	case seq == d.upTo+1:
		d.upTo = seq
	case seq > d.upTo:
		d.after, d.upTo = seq-1, seq
	case seq == d.after: // it is late
		d.after--
	}
}

func (d *followedDocuments) enterBatch(m *documentsBody) {
	if len(d.arrived) != m.batches || d.all != m.seq {
		d.all, d.arrived, d.left = m.seq, make([]bool, m.batches), m.batches
	}
	if !d.arrived[m.batch] {
		d.arrived[m.batch] = true
		d.left--
	}
	if d.left == 0 {
		d.known, d.seq = true, max(d.seq, m.seq)
		d.arrived = nil
	}
}

// lacks reports whether documents up to a change are missing.
func (d *followedDocuments) lacks(newest uint64) bool { return !d.known || d.seq < newest }
