package receiver

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// stranger is a table that knows no line. It records the announced and the applied samples.
type stranger struct {
	Applier
	t        *testing.T
	lines    []metric.Line
	taken    int // of the lines
	foretold []*metric.Sample
	before   []*metric.Sample // that were foretold at some time
	together []int            // how many samples each PrefetchNew had
	applied  []string
	refuse   string
}

func (s *stranger) LookupLines(lines []metric.Line) { s.lines, s.taken = lines, 0 }
func (s *stranger) ApplyKnown(from int) int         { return 0 }
func (s *stranger) Quiesce()                        {}

func (s *stranger) UnknownLines(from, limit int) int { return min(limit, len(s.lines)-from) }

func (s *stranger) PrefetchNew(from int, next []metric.Sample) {
	if len(s.foretold) > 0 {
		s.t.Errorf("%d samples were foretold and did not come", len(s.foretold))
	}
	if len(next) > 0 {
		s.together = append(s.together, len(next))
	}
	for i := range next {
		if next[i].Line != &s.lines[from+i] {
			s.t.Errorf("sample %d is not of the line %d", i, from+i)
		}
		s.foretold = append(s.foretold, &next[i])
	}
	s.before = append(s.before, s.foretold...)
}

func (s *stranger) Apply(sample *metric.Sample) metric.Reason {
	switch {
	case len(s.foretold) > 0 && s.foretold[0] == sample:
		s.foretold = s.foretold[1:]
	case len(s.foretold) > 0 || slices.Contains(s.before, sample):
		s.t.Errorf("%s came, which was not foretold", sample.Name)
	}
	said := string(sample.Name)
	if sample.Sender != nil {
		said += " of " + sample.Sender.Pod.Name
	}
	s.applied = append(s.applied, said)
	if s.refuse == string(sample.Name) {
		return metric.OverLimit
	}
	return metric.Applied
}

// New lines are parsed ahead and applied in order, each once, whatever stands between them.
func TestNewLinesAreParsedAhead(t *testing.T) {
	for _, c := range []struct {
		name, packet      string
		applied           []string
		together          []int
		refused, overLine uint64
	}{
		{"one", "a:1|c", []string{"a"}, []int{1}, 0, 0},
		{"some", "a:1|c\nb:1|c\nc:1|c", []string{"a", "b", "c"}, []int{3}, 0, 0},
		{"more than a handful", "a:1|c\nb:1|c\nc:1|c\nd:1|c\ne:1|c\nf:1|c\ng:1|c\nh:1|c\ni:1|c\nj:1|c", []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, []int{8, 2}, 0, 0},
		{"of several values between", "a:1|c\nb:1:2|c\nc:1|c\nd:1|c", []string{"a", "b", "b", "c", "d"}, []int{1, 2}, 0, 0},
		{"of several groups first", "a:1|c:2|ms\nb:1|c\nc:1|c", []string{"a", "a", "b", "c"}, []int{2}, 0, 0},
		{"a wrong one between", "a:1|c\nb:1|c\nc:x|c\nd:1|c\ne:1|c", []string{"a", "b", "d", "e"}, []int{2, 2}, 1, 0},
		{"a wrong one last", "a:1|c\nb:1|c\nc:1|", []string{"a", "b"}, []int{2}, 1, 0},
		{"a refused one between", "a:1|c\nover:1|c\nc:1|c", []string{"a", "over", "c"}, []int{3}, 0, 1},
		{"one after some", "a:1|c\nb:1|c\nc:1:2|c\nd:1|c", []string{"a", "b", "c", "c", "d"}, []int{2, 1}, 0, 0},
		{"all the same", "a:1|c\na:1|c", []string{"a", "a"}, []int{2}, 0, 0},
		{"one that is not cut between", "a:1|c\nb:1|c\nbroken\nc:1|c\nd:1|c", []string{"a", "b", "c", "d"}, []int{2, 2}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := bind(t, testConfig(udp(1)))
			defer f.server.Close()
			in := f.server.newIngester(udp(1), f.server.packets[0].account)
			table := &stranger{t: t, refuse: "over"}
			in.applier = table
			in.applyPacket([]byte(c.packet))
			in.endBatch()
			if !slices.Equal(table.applied, c.applied) || !slices.Equal(table.together, c.together) {
				t.Errorf("applied %v, foretold %v; want %v, %v", table.applied, table.together, c.applied, c.together)
			}
			if wrong, over := f.rejected(metric.Malformed)+f.rejected(metric.BadValue), f.rejected(metric.OverLimit); wrong != c.refused || over != c.overLine {
				t.Errorf("%d wrong, %d over the limit; want %d, %d", wrong, over, c.refused, c.overLine)
			}
			if got, want := in.account.Applied(), uint64(len(c.applied))-c.overLine; got != want {
				t.Errorf("%d are accounted for as applied, want %d", got, want)
			}
		})
	}
}

// Lines of several senders may be collected together. Each keeps its sender, and a line that is
// rejected next has the current one.
func TestLinesParsedAheadKeepTheirSender(t *testing.T) {
	table := &stranger{t: t}
	in := &ingester{scanner: statsd.NewScanner(DefaultConfig().options(statsd.StatsD)), applier: table, account: &ledger.Account{}}
	sender, two := &metric.Sender{Key: 1, Pod: &metric.Pod{Name: "one"}}, &metric.Sender{Key: 2, Pod: &metric.Pod{Name: "two"}}
	in.sender = sender
	in.addLines([]byte("a:1|c\nb:1|c"))
	in.sender = two
	in.addLines([]byte("c:1|c"))
	in.flush()
	if want := []string{"a of one", "b of one", "c of two"}; !slices.Equal(table.applied, want) {
		t.Errorf("%v, want %v", table.applied, want)
	}
	in.sender = sender
	in.addLines([]byte("d:1|c"))
	in.sender = two
	in.flush()
	if s := &in.scanner.Sample; s.Sender != two || s.Line != nil {
		t.Errorf("what is refused now is said to be of %v, line %v", s.Sender, s.Line)
	}
}

// addressed is a table that notes the address of each sample's sender.
type addressed struct {
	*stranger
	applied []string
}

func (a *addressed) Apply(sample *metric.Sample) metric.Reason {
	a.foretold = nil
	a.applied = append(a.applied, string(sample.Name)+" of "+sample.Sender.Address.String())
	return metric.Applied
}

// So do lines of unknown senders, of which the resolver holds one at a time.
func TestLinesOfUnknownSendersKeepTheirSender(t *testing.T) {
	table := &addressed{stranger: &stranger{t: t}}
	in := &ingester{scanner: statsd.NewScanner(DefaultConfig().options(statsd.StatsD)), applier: table, account: &ledger.Account{}}
	in.resolver.Senders = &directory{}
	for _, line := range []string{"a 10.0.0.1", "b 10.0.0.1", "c 10.0.0.2"} {
		name, address, _ := strings.Cut(line, " ")
		in.setSender(netip.MustParseAddr(address))
		in.addLines([]byte(name + ":1|c"))
	}
	in.flush()
	if want := []string{"a of 10.0.0.1", "b of 10.0.0.1", "c of 10.0.0.2"}; !slices.Equal(table.applied, want) {
		t.Errorf("%v, want %v", table.applied, want)
	}
}

// DogStatsD's T: a gauge older than 5 minutes is rejected, a counter counts.
func TestOutdatedGauge(t *testing.T) {
	f := serve(t, testConfig(udp(1)))
	conn := f.dial(0)
	now := time.Now()
	f.send(conn, fmt.Sprintf("depth:1|g|T%d\ndepth:2|g|T%d\nhits:4|c|T%d\n", now.Add(-6*time.Minute).Unix(), now.Add(-4*time.Minute).Unix(), now.Add(-time.Hour).Unix()))
	f.eventually("three", func() bool { return f.received() == 3 })
	if f.recorder.sum("depth") != 2 || f.recorder.sum("hits") != 4 || f.rejected(metric.Outdated) != 1 {
		t.Errorf("depth %d, hits %d, %d outdated", f.recorder.sum("depth"), f.recorder.sum("hits"), f.rejected(metric.Outdated))
	}
}
