package store

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
)

// counters are written by the store's goroutines and read by collectors.
type counters struct {
	flushes, failures, syncs, setAside atomic.Int64
	flushNanos, restoreNanos           atomic.Int64
	restoredBlocks, failedBlocks       atomic.Int64
	restoredDocuments, failedDocuments atomic.Int64
	cutBlocks                          atomic.Int64
	writtenBytes                       atomic.Uint64
}

var (
	lagDesc = prometheus.NewDesc("sluice_store_lag_seconds",
		"Age of the oldest change that may not be on disk.", nil, nil)
	persistingDesc = prometheus.NewDesc("sluice_store_persisting",
		"1 while changes are written to disk, 0 while the disk is too full or failing.", nil, nil)
	writtenDesc = prometheus.NewDesc("sluice_store_written_bytes_total",
		"Bytes passed to the database, which writes them to disk more than once.", nil, nil)
	flushesDesc = prometheus.NewDesc("sluice_store_flushes_total",
		"Successful flushes.", nil, nil)
	flushSecondsDesc = prometheus.NewDesc("sluice_store_flush_seconds_total",
		"Time spent in flushes, without the pauses between blocks.", nil, nil)
	syncsDesc = prometheus.NewDesc("sluice_store_syncs_total",
		"Successful and failed fsyncs of the database.", nil, nil)
	failuresDesc = prometheus.NewDesc("sluice_store_failures_total",
		"Failed flushes and fsyncs.", nil, nil)
	setAsideDesc = prometheus.NewDesc("sluice_store_set_aside_total",
		"Databases that were renamed because they could not be trusted.", nil, nil)
	restoreSecondsDesc = prometheus.NewDesc("sluice_store_restore_seconds",
		"Time that the last start took to check and open the database and to restore from it.", nil, nil)
	restoredDesc = prometheus.NewDesc("sluice_store_restored_blocks",
		"Blocks of 1,024 series found at the last start: complete, cut to an earlier state, or failed.",
		[]string{"result"}, nil)
	restoredDocumentsDesc = prometheus.NewDesc("sluice_store_restored_documents",
		"Documents (pushed groups, and the metrics that each workload has counted) found at the last start: complete or failed.", []string{"result"}, nil)
	freeDesc = prometheus.NewDesc("sluice_store_disk_free_bytes",
		"Free space on the disk of the data folder, less the space that the database may claim.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, lagDesc, persistingDesc, writtenDesc, flushesDesc, flushSecondsDesc, syncsDesc,
		failuresDesc, setAsideDesc, restoreSecondsDesc, restoredDesc, restoredDocumentsDesc, freeDesc)
}

// Collect implements prometheus.Collector.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	c := &s.count
	collect.Gauge(ch, lagDesc, s.Lag().Seconds())
	collect.Gauge(ch, persistingDesc, collect.OneIf(s.status.notPersisting() == ""))
	collect.Counter(ch, writtenDesc, c.writtenBytes.Load())
	collect.Counter(ch, flushesDesc, c.flushes.Load())
	collect.Counter(ch, flushSecondsDesc, time.Duration(c.flushNanos.Load()).Seconds())
	collect.Counter(ch, syncsDesc, c.syncs.Load())
	collect.Counter(ch, failuresDesc, c.failures.Load())
	collect.Counter(ch, setAsideDesc, c.setAside.Load())
	collect.Gauge(ch, restoreSecondsDesc, time.Duration(c.restoreNanos.Load()).Seconds())
	cut := c.cutBlocks.Load()
	collect.Gauge(ch, restoredDesc, c.restoredBlocks.Load()-cut, "complete")
	collect.Gauge(ch, restoredDesc, cut, "cut")
	collect.Gauge(ch, restoredDesc, c.failedBlocks.Load(), "failed")
	collect.Gauge(ch, restoredDocumentsDesc, c.restoredDocuments.Load(), "complete")
	collect.Gauge(ch, restoredDocumentsDesc, c.failedDocuments.Load(), "failed")
	if free, err := s.freeBytes(s.folder.Dir); err == nil {
		collect.Gauge(ch, freeDesc, free)
	}
}
