package store

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	for _, d := range []*prometheus.Desc{lagDesc, persistingDesc, writtenDesc, flushesDesc, flushSecondsDesc, syncsDesc,
		failuresDesc, setAsideDesc, restoreSecondsDesc, restoredDesc, restoredDocumentsDesc, freeDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	persisting := 1.0
	if s.status.notPersisting() != "" {
		persisting = 0
	}
	c := &s.count
	gauge(lagDesc, s.Lag().Seconds())
	gauge(persistingDesc, persisting)
	counter(writtenDesc, float64(c.writtenBytes.Load()))
	counter(flushesDesc, float64(c.flushes.Load()))
	counter(flushSecondsDesc, time.Duration(c.flushNanos.Load()).Seconds())
	counter(syncsDesc, float64(c.syncs.Load()))
	counter(failuresDesc, float64(c.failures.Load()))
	counter(setAsideDesc, float64(c.setAside.Load()))
	gauge(restoreSecondsDesc, time.Duration(c.restoreNanos.Load()).Seconds())
	cut := c.cutBlocks.Load()
	gauge(restoredDesc, float64(c.restoredBlocks.Load()-cut), "complete")
	gauge(restoredDesc, float64(cut), "cut")
	gauge(restoredDesc, float64(c.failedBlocks.Load()), "failed")
	gauge(restoredDocumentsDesc, float64(c.restoredDocuments.Load()), "complete")
	gauge(restoredDocumentsDesc, float64(c.failedDocuments.Load()), "failed")
	if free, err := s.freeBytes(s.folder.Dir); err == nil {
		gauge(freeDesc, float64(free))
	}
}
