// Package statsdhttp serves /v1/statsd: StatsD lines in the body of a request. Package statsd has
// the grammar.
package statsdhttp
