package replica

import (
	"slices"
	"strings"
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

// sendDocuments sends all documents to a replica that asked for them.
func (r *Replica) sendDocuments(to string) {
	if r.parts.Documents == nil {
		return
	}
	m := documentsBody{seq: r.publisher.changeOf()}
	all := r.parts.Documents.All()
	slices.SortFunc(all, func(a, b Document) int { return strings.Compare(a.Key, b.Key) }) // batches of two answers may meet
	batches := batchesOf(all)
	if len(batches) == 0 {
		batches = [][]Document{nil}
	}
	var buffer []byte
	m.batches = len(batches)
	for m.batch, m.docs = range batches {
		buffer = r.send(r.subjects.of(stateOf, r.me.name, to), typeDocuments, m.append(nil), buffer)
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
}

// enter notes a message of documents. All are applied, in whatever order they arrive; the numbers
// only tell whether one is missing.
func (d *followedDocuments) enter(m *documentsBody) {
	if m.batches == 0 {
		if d.known && m.seq == d.seq+1 {
			d.seq++
		}
		return
	}
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
