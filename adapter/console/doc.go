// Package console serves web pages about what a Sluice holds and what its autoscalers get: lists,
// explanations and plots of the last ten minutes (docs/adr/0058). It follows package inspect, whose
// documents it shows, package explain and the metrics APIs' readers.
//
// It changes nothing but the groups that a client deletes (docs/adr/0107), and stands on the path of neither a line nor an answer. While nobody
// looks and no autoscaler names a metric, it does nothing.
package console
