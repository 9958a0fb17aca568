package client

import (
	"errors"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// lifetime is a flag of a series' lifetime: a duration of at least 1s, or "forever". 0: not given.
type lifetime time.Duration

var errLifetime = errors.New("must be a duration of at least 1s, as in 90s, 10m or 24h, or forever")

// Set implements pflag.Value.
func (l *lifetime) Set(s string) error {
	if s == "forever" {
		*l = lifetime(metric.Forever)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second {
		return errLifetime
	}
	*l = lifetime(d)
	return nil
}

func (l *lifetime) String() string {
	switch d := time.Duration(*l); d {
	case 0:
		return ""
	case metric.Forever:
		return "forever"
	default:
		return d.String()
	}
}

// Type implements pflag.Value.
func (l *lifetime) Type() string { return "duration|forever" }
