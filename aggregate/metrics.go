package aggregate

import (
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/internal/collect"
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
	collect.Describe(ch, seriesDesc, seriesLimitDesc, aliasesDesc, evictedDesc, slowDesc, memoryDesc)
}

// Collect implements prometheus.Collector.
func (t *Table) Collect(ch chan<- prometheus.Metric) {
	aliases, aliasBytes := t.aliases.Size()
	_, noteBytes := t.Logs.Used()
	collect.Gauge(ch, seriesDesc, t.Series())
	collect.Gauge(ch, seriesLimitDesc, t.config.MaxSeries)
	collect.Gauge(ch, aliasesDesc, aliases)
	collect.Gauge(ch, memoryDesc, t.Blocks()*kind.BlockSeries*placeBytes, "cells")
	collect.Gauge(ch, memoryDesc, aliasBytes, "aliases")
	collect.Gauge(ch, memoryDesc, noteBytes, "notes")
	collect.Gauge(ch, memoryDesc, t.nameBytes.Load(), "names")
	collect.Gauge(ch, memoryDesc, t.BodyBytes.Load(), "timers_and_sets")
	collect.Counter(ch, slowDesc, t.slow.seen.Load())
	collect.Counter(ch, evictedDesc, t.evicted.Load())
}
