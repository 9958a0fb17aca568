package policy

import (
	"maps"
	"sync"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

// question is a metric in a namespace.
type question struct {
	namespace  string
	expression metric.Expression
	forwarded  bool
}

// hit is the first rule of a policy that matches a metric.
type hit struct {
	policy *Policy
	index  int
}

func (h hit) rule() *rule { return &h.policy.rules[h.index] }

// verdict is what the policies say about a name, whoever asks with whatever selector.
type verdict struct {
	hits   []hit
	hidden bool // a policy of the cluster denies it to everybody, whatever its kind
	denied bool // a rule denies it to everybody
}

// What verdicts take, in bytes: one beside its name, with its place in a map, and a hit.
const (
	maxRemembered = 4 << 20
	verdictBytes  = 256
	hitBytes      = 16
)

// memory remembers verdicts, because expressions are slow beside a read. Where there is no room for
// another one, all are forgotten that the namespace with most of them brought, so a namespace whose
// readers invent names forgets its own.
type memory struct {
	mu       sync.Mutex // guards the rest
	verdicts map[question]remembered
	held     fair.Shares[string, int] // bytes, by asker
}

// remembered is a verdict, and the namespace in which the name was asked for first: the question
// may be one of all.
type remembered struct {
	verdict
	asker string
}

// bytes is about what a verdict takes.
func (r remembered) bytes(q question) int {
	return verdictBytes + len(q.namespace) + len(q.expression.Name) + len(r.asker) + hitBytes*cap(r.hits)
}

func newMemory() *memory { return &memory{verdicts: map[question]remembered{}} }

func (m *memory) of(q question) (verdict, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one, known := m.verdicts[q]
	return one.verdict, known
}

func (m *memory) keep(q question, v verdict, asker string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.verdicts[q]; known { // another namespace asked at once
		return
	}
	one := remembered{v, asker}
	for m.held.Held()+one.bytes(q) > maxRemembered {
		m.forgetLocked(fair.Largest(&m.held))
	}
	m.addLocked(q, one)
}

func (m *memory) addLocked(q question, one remembered) {
	m.verdicts[q] = one
	m.held.Add(one.asker, one.bytes(q))
}

func (m *memory) forgetLocked(asker string) {
	maps.DeleteFunc(m.verdicts, func(_ question, one remembered) bool { return one.asker == asker })
	m.held.Add(asker, -m.held.Of(asker))
}

// handOver copies some verdicts to a memory that nobody else knows yet.
func (m *memory) handOver(to *memory, still func(question) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for q, one := range m.verdicts {
		if still(q) {
			to.addLocked(q, one)
		}
	}
}
