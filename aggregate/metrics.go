package aggregate

import (
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/aggregate/kind"
)

var (
	seriesDesc = prometheus.NewDesc("sluice_series",
		"Live series.", nil, nil)
	seriesLimitDesc = prometheus.NewDesc("sluice_series_limit",
		"Limit of live series of the whole process.", nil, nil)
	aliasesDesc = prometheus.NewDesc("sluice_aliases",
		"Cached spellings of series and of rejected lines.", nil, nil)
	evictedDesc = prometheus.NewDesc("sluice_series_evicted_total",
		"Series that expired or were deleted.", nil, nil)
	slowDesc = prometheus.NewDesc("sluice_slow_pusher_reads_total",
		"Reads of a rate whose counter is pushed at an interval longer than a third of the window.", nil, nil)
	memoryDesc = prometheus.NewDesc("sluice_table_bytes",
		"Memory of the table, by what it holds.", []string{"part"}, nil)
)

// placeBytes is the memory of a place in a block, without its body.
const placeBytes = pageBytes/kind.BlockSeries + int(unsafe.Sizeof(series{}))

// Describe implements prometheus.Collector.
func (t *Table) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{seriesDesc, seriesLimitDesc, aliasesDesc, evictedDesc, slowDesc, memoryDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (t *Table) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	aliases, aliasBytes := t.aliases.Size()
	_, noteBytes := t.Logs.Used()
	gauge(seriesDesc, float64(t.Series()))
	gauge(seriesLimitDesc, float64(t.config.MaxSeries))
	gauge(aliasesDesc, float64(aliases))
	gauge(memoryDesc, float64(t.Blocks()*kind.BlockSeries*placeBytes), "cells")
	gauge(memoryDesc, float64(aliasBytes), "aliases")
	gauge(memoryDesc, float64(noteBytes), "notes")
	gauge(memoryDesc, float64(t.nameBytes.Load()), "names")
	gauge(memoryDesc, float64(t.BodyBytes.Load()), "timers_and_sets")
	ch <- prometheus.MustNewConstMetric(slowDesc, prometheus.CounterValue, float64(t.slow.seen.Load()))
	ch <- prometheus.MustNewConstMetric(evictedDesc, prometheus.CounterValue, float64(t.evicted.Load()))
}
