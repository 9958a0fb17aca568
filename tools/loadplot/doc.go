// Loadplot writes reports of "sluice-loadtest -o json" into a folder, as tables (figures.md) and
// pictures: the cost of a line by rate (cost.svg), latencies (latency.svg) and memory (memory.svg).
// The entries of several reports stand side by side. A picture without figures is not written.
//
//	cd tools && go run ./loadplot -out ../bin/figures ../bin/lines.json ../bin/others.json
//
// A picture is plain SVG with a style for light and dark backgrounds (prefers-color-scheme). It has
// no scripts, and no fonts of its own.
package main
