package scrape

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter/inspect"
)

type counters struct {
	scrapes *prometheus.CounterVec
	faults  prometheus.Counter
}

func newCounters() counters {
	c := counters{
		scrapes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_scrapes_total",
			Help: "Scrapes of announced endpoints, by result: ok, unreachable, timeout, moved (the pod does not hold its address alone), status (not 200), too_large, unreadable, missing (the page has none of the named metrics), rejected (all samples were).",
		}, []string{"result"}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_scrape_invalid_announcements_total",
			Help: "Pods whose annotation that announces endpoints has a fault; each also has an Event.",
		}),
	}
	for _, r := range results {
		c.scrapes.WithLabelValues(string(r))
	}
	return c
}

var targetsDesc = prometheus.NewDesc("sluice_scrape_targets",
	"Endpoints that pods announce, by state: up, failing, waiting (not scraped yet), elsewhere (another replica scrapes), surplus (of more pods than a server scrapes), invalid (one for each pod whose announcement has a fault).",
	[]string{"state"}, nil)

// Describe implements prometheus.Collector.
func (s *Scraper) Describe(ch chan<- *prometheus.Desc) {
	ch <- targetsDesc
	s.counters.scrapes.Describe(ch)
	s.counters.faults.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *Scraper) Collect(ch chan<- prometheus.Metric) {
	number := map[string]int{}
	for _, t := range s.Targets("") {
		number[t.State]++
	}
	for _, state := range inspect.TargetStates {
		ch <- prometheus.MustNewConstMetric(targetsDesc, prometheus.GaugeValue, float64(number[state]), state)
	}
	s.counters.scrapes.Collect(ch)
	s.counters.faults.Collect(ch)
}
