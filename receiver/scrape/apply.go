package scrape

import (
	"fmt"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Receiver is the receiver of scraped samples, in metrics and lists.
const Receiver = "scrape"

// ttlOf is the lifetime of a series after the last page that had it: one slow scrape must not flip an
// autoscaler.
func ttlOf(interval time.Duration) time.Duration { return max(3*interval, 15*time.Second) }

// pageReader parses filtered pages. Its lock is held by the goroutine that parses a page, until it is applied.
type pageReader struct {
	sync.Mutex
	text    *exposition.TextReader
	builder exposition.SampleBuilder
	sample  metric.Sample
	object  metric.Object
}

// errEnded: another one scrapes the target now, and its pages are newer.
var errEnded = failed(moved, "another scraper has the target")

// apply parses the lines of a page that was read at a moment, and applies them as samples of the pod. The sender
// holds the pod's address.
func (s *Scraper) apply(t *target, lines []byte, sender *metric.Sender, read time.Time) *fault {
	r := &s.small
	if len(lines) > smallPage {
		r = &s.large
	}
	r.Lock() // one page at a time: a parsed one takes some sixty times its bytes
	defer r.Unlock()
	if r.text == nil {
		r.text = exposition.NewTextReader(exposition.DefaultOptions())
	}
	if r == &s.large { // a reader keeps memory in proportion to its largest page
		defer func() { r.text = nil }()
	}
	families, bad := r.text.Read(lines)
	if bad.Reason != metric.Applied {
		s.account(bad.Reason, 1)
		return failed(unreadable, "the lines of the named metrics are not valid: %s", bad.Error())
	}
	if len(families) == 0 {
		return failed(missing, "the page has none of the named metrics")
	}
	r.object = sender.Pod.Object()
	r.sample = metric.Sample{Object: &r.object, Sender: sender, TTL: ttlOf(t.Interval)}
	if s.parts.Shares != nil {
		r.sample.Read = read.UnixNano()
	}
	defer func() {
		r.builder.End()
		r.sample = metric.Sample{}
	}()
	var applied, dropped int
	var why string
	s.table.Lock()
	defer s.table.Unlock()
	if t.ended.Load() {
		return errEnded
	}
	a := s.table.applier
	a.Online()
	defer a.Offline()
	for i := range families {
		f := &families[i]
		for j := range f.Metrics {
			r.sample.Fields = f.Metrics[j].Labels
			reason := r.builder.Build(&r.sample, f, j)
			if reason == metric.Applied {
				reason = a.Apply(&r.sample)
			}
			if reason == metric.Pending { // the next page comes anyway
				reason = metric.Identity
			}
			s.table.account.Count(reason)
			if reason == metric.Applied {
				applied++
			} else {
				if dropped++; dropped == 1 {
					why = fmt.Sprintf("%s (%s)", s.why(reason, &r.sample), metric.Truncate(string(r.sample.Name), 80))
				}
				s.record(reason, &r.sample)
			}
			if (applied+dropped)%batch == 0 && !s.yield(t) {
				return errEnded
			}
		}
	}
	t.samples.Store(int64(applied))
	switch {
	case dropped == 0:
		return nil
	case applied == 0:
		return failed(rejected, "all %d samples were rejected: %s", dropped, why)
	}
	return failed(ok, "%d of %d samples were rejected: %s", dropped, applied+dropped, why)
}

// yield lets other pages have the table, between two batches. It returns false if the target has ended meanwhile.
func (s *Scraper) yield(t *target) bool {
	s.table.applier.Offline()
	s.table.Unlock()
	s.table.Lock()
	s.table.applier.Online()
	return !t.ended.Load()
}

// batch is the number of samples between two batch boundaries.
const batch = 256

// record records a rejected sample; of the many that the pages of a second may have, some.
func (s *Scraper) record(reason metric.Reason, sample *metric.Sample) {
	if weight := ratelog.Weight(s.rejected[reason].Allow()); weight > 0 {
		s.parts.Rejections.Add(&record.Sample{Receiver: Receiver, Sender: sample.Sender, Reason: reason, Metric: sample.Name,
			Why: func() string { return s.why(reason, sample) }}, weight)
	}
}

// why says why a sample was rejected.
func (s *Scraper) why(reason metric.Reason, sample *metric.Sample) string {
	if why := s.parts.Explain(reason, sample); why != "" {
		return why
	}
	return reason.String()
}

func (s *Scraper) account(reason metric.Reason, n uint64) {
	s.table.Lock()
	defer s.table.Unlock()
	s.table.account.CountN(reason, n)
}
