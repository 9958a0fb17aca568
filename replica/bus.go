package replica

import (
	"strconv"
	"strings"
)

// Bus carries messages between replicas, each at most once.
type Bus interface {
	// Publish sends a message to all subscribers of a subject. It never waits for one, and does not
	// retain the message.
	Publish(subject string, message []byte) error
	// Busy reports whether so much is unsent that what can wait should: Publish drops messages soon.
	Busy() bool
	// Subscribe calls handle for each message of matching subjects, one call at a time, in the
	// order in which a replica sent them. A "*" matches one part of a subject, a ">" the rest. The
	// message is valid during the call.
	Subscribe(subject string, handle func(subject string, message []byte)) (cancel func(), err error)
}

// The flow of an origin, "sluice.v1.<cluster>.flow.<origin>.<topic>", has one subscription, so that
// its messages arrive in the order in which they were sent. The other subjects are "want.<origin>",
// "state.<origin>.<replica that asked>", "synced.<origin>.<replica that answers>" and "usage.<origin>".
const (
	flowOf     = "flow"
	wantOf     = "want"
	stateOf    = "state"
	syncedOf   = "synced"
	usageOf    = "usage"
	topicDelta = "delta"
	topicBeat  = "beat"
	topicDoc   = "doc"
	topicSync  = "sync"
	topicRelay = "relay"
)

const subjectPrefix = "sluice.v1."

// subjects builds the subjects of one cluster.
type subjects struct{ prefix string }

func newSubjects(cluster string) subjects { return subjects{subjectPrefix + cluster + "."} }

func (s subjects) of(parts ...string) string { return s.prefix + strings.Join(parts, ".") }

// originOf is the origin that a subject names.
func (s subjects) originOf(subject string) string {
	rest, ok := strings.CutPrefix(subject, s.prefix)
	if !ok {
		return ""
	}
	_, rest, _ = strings.Cut(rest, ".")
	origin, _, _ := strings.Cut(rest, ".")
	return origin
}

// ofBlock is the subject of a block's deltas.
func (s subjects) ofBlock(origin string, block int) string {
	return s.of(flowOf, origin, topicDelta, strconv.Itoa(block))
}
