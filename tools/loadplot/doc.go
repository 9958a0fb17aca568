// Loadplot draws reports of "sluice-loadtest -o json": the cost of a line by scenario, beside both
// floors, and every figure in milliseconds. Several reports, such as those of other servers under
// the same load, stand side by side. With -out FILE.md it writes all figures as tables.
//
//	cd tools && go run ./loadplot -out ../bench.svg ../sluice.json ../statsd_exporter.json
package main
