// Package export writes every live series as an exposition, for whoever scrapes Sluice, and names
// the series as Prometheus or statsd_exporter would.
//
// Before it stands the table, which a Source reads. After it receiver/push/serieshttp, which serves
// the page. The package does no I/O of its own, keeps no series between two pages, and never decides
// who may read.
//
// A page is made in two steps. NewPage lists the metrics and gives each its name, so that one name
// has one type and no family has the name of another family's samples; it holds some hundred bytes
// per metric, and nothing per series. Write then reads the series and writes them in pieces.
package export
