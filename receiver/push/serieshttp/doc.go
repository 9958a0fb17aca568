// Package serieshttp serves GET /metrics/series: every live series that the sender may read, as an
// exposition. Package export makes the page.
package serieshttp
