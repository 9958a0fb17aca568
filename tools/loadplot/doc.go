// Loadplot draws reports of "sluice loadtest -o json": what a line costs by scenario, beside both floors, and
// every figure in milliseconds. Several reports, as of other servers under the same load, stand side by side.
//
//	cd tools && go run ./loadplot -out ../bench.svg ../sluice.json ../statsd_exporter.json
//
// With -out FILE.md the same figures, and all others, are written as tables.
//
// It is a program of its own because drawing would add 7 MB to the server's binary.
package main
