// Package scrape takes metrics from endpoints that pods announce: pages in Prometheus' text format or
// OpenMetrics.
//
// Before it stands the cluster view, which knows the pods and what they announce; after it the table. A
// scrape has two halves, which share a filtered page and nothing else:
//
//   - fetch (fetch.go, filter.go) dials, reads within limits, decompresses, and keeps the lines of the
//     named families, without timestamps and exemplars;
//   - apply (apply.go) parses those lines as a push in the exposition format, and applies them as
//     samples of the pod.
//
// A Fetcher has the first half, with one goroutine per endpoint; a server has one, and so has each agent. A
// Scraper has the second, and decides who fetches: the agent of the pod's node (agents.go), its own Fetcher, or another
// replica (turns.go).
//
// Totals on a page are cumulative, so a page that is lost is repaired by the next one.
//
// The package dials the addresses of announcing pods and nothing else. It follows no redirect, uses no
// proxy and shows no credential. It never decides about a sample, and never removes a series: each ends
// by its TTL, three intervals after the last page that had it.
package scrape
