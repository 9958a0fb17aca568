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
	// Subscribe calls handle for each message of matching subjects, one call at a time. A "*"
	// matches one part of a subject. The message is valid during the call.
	Subscribe(subject string, handle func(subject string, message []byte)) (cancel func(), err error)
}

// Subjects are "sluice.v1.<cluster>.<topic>.<name>", with the name of an origin. States end in the
// name of the replica that asked for them, and answers to a question in the name of the replica
// that answers.
const (
	topicDelta  = "delta"
	topicBeat   = "beat"
	topicWant   = "want"
	topicState  = "state"
	topicDoc    = "doc"
	topicSync   = "sync"
	topicSynced = "synced"
)

const subjectPrefix = "sluice.v1."

// subjects builds the subjects of one cluster.
type subjects struct{ prefix string }

func newSubjects(cluster string) subjects { return subjects{subjectPrefix + cluster + "."} }

func (s subjects) of(topic string, names ...string) string {
	return s.prefix + topic + "." + strings.Join(names, ".")
}

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
	return s.of(topicDelta, origin, strconv.Itoa(block))
}
