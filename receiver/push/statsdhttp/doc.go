// Package statsdhttp serves /v1/statsd: StatsD lines in the body of a request. The grammar is package statsd's.
package statsdhttp
