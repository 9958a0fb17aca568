package store

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are written by the store's goroutines and read by whoever collects.
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
		"Bytes handed to the database; it writes them more than once.", nil, nil)
	flushesDesc = prometheus.NewDesc("sluice_store_flushes_total",
		"Flushes that wrote all that had changed.", nil, nil)
	flushSecondsDesc = prometheus.NewDesc("sluice_store_flush_seconds_total",
		"Time spent in flushes.", nil, nil)
	syncsDesc = prometheus.NewDesc("sluice_store_syncs_total",
		"Times that the database was synced.", nil, nil)
	failuresDesc = prometheus.NewDesc("sluice_store_failures_total",
		"Flushes and syncs that failed.", nil, nil)
	setAsideDesc = prometheus.NewDesc("sluice_store_set_aside_total",
		"Databases that could not be trusted and were renamed.", nil, nil)
	restoreSecondsDesc = prometheus.NewDesc("sluice_store_restore_seconds",
		"How long it took to check and open the database and to restore from it.", nil, nil)
	restoredDesc = prometheus.NewDesc("sluice_store_restored_blocks",
		"Blocks of 1,024 series found at the start: complete, cut to an earlier state, or failed.", []string{"result"}, nil)
	restoredDocumentsDesc = prometheus.NewDesc("sluice_store_restored_documents",
		"Documents (pushed groups, and which workloads counted what) that the last start found: complete, failed.", []string{"result"}, nil)
	freeDesc = prometheus.NewDesc("sluice_store_disk_free_bytes",
		"What the disk of the data directory has free beyond what the database may claim.", nil, nil)
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
