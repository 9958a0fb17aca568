package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/push"
)

// durations is a flag of comma-separated durations. A value replaces the list.
type durations struct{ list *[]time.Duration }

// Set implements pflag.Value.
func (d *durations) Set(s string) error {
	var list []time.Duration
	for _, piece := range strings.Split(s, ",") {
		one, err := time.ParseDuration(strings.TrimSpace(piece))
		if err != nil {
			return fmt.Errorf("must be durations as in 10s,1m: %w", err)
		}
		list = append(list, one)
	}
	*d.list = list
	return nil
}

func (d *durations) String() string {
	pieces := make([]string, len(*d.list))
	for i, one := range *d.list {
		pieces[i] = metric.FormatWindow(one)
	}
	return strings.Join(pieces, ",")
}

// Type implements pflag.Value.
func (d *durations) Type() string { return "durations" }

// words is a flag of comma-separated words. A value replaces the list, an empty one empties it.
type words struct{ list *[]string }

// Set implements pflag.Value.
func (w *words) Set(s string) error {
	var list []string
	for _, piece := range strings.Split(s, ",") {
		if piece = strings.TrimSpace(piece); piece != "" {
			list = append(list, piece)
		}
	}
	*w.list = list
	return nil
}

func (w *words) String() string { return strings.Join(*w.list, ",") }

// Type implements pflag.Value.
func (w *words) Type() string { return "list" }

// size is a flag of a number of bytes: "512", "64KiB", "256MiB", "2GiB".
type size[N int | int64 | uint64] struct{ bytes *N }

func newSize[N int | int64 | uint64](bytes *N) *size[N] { return &size[N]{bytes} }

var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

var errSize = errors.New("must be a whole number of bytes, or of KiB, MiB or GiB as in 256MiB")

// Set implements pflag.Value.
func (s *size[N]) Set(text string) error {
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n > math.MaxInt64/unit.bytes {
			return errSize
		}
		*s.bytes = N(n * unit.bytes)
		return nil
	}
	return errSize
}

func (s *size[N]) String() string {
	for _, unit := range sizeUnits {
		if n := uint64(*s.bytes); n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatUint(n/unit.bytes, 10) + unit.suffix
		}
	}
	return "0"
}

// Type implements pflag.Value.
func (s *size[N]) Type() string { return "size" }

// choice is a flag that takes one of a few words.
type choice struct {
	name  string // of what is chosen
	words []string
	value interface {
		UnmarshalText([]byte) error
		MarshalText() ([]byte, error)
	}
}

// aboutSender says that a line which names nothing is about the pod that sent it.
const aboutSender = "sender"

var (
	dialects = []string{"statsd", "dogstatsd", "influx", "librato", "signalfx"}
	levels   = []string{"debug", "info", "warn", "error"}
	formats  = []string{"text", "json"}

	abouts      = []string{aboutSender, receiver.AboutExternal}
	pushAuths   = []string{push.AuthNone, push.AuthToken}
	clientAuths = []string{push.ClientAuthRequest, push.ClientAuthRequire}
	trustModes  = []string{"open", "namespace", "strict"}
)

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	if word := strings.ToLower(s); slices.Contains(c.words, word) {
		return c.value.UnmarshalText([]byte(word))
	}
	last := len(c.words) - 1
	return fmt.Errorf("must be %s or %s", strings.Join(c.words[:last], ", "), c.words[last])
}

func (c *choice) String() string {
	text, err := c.value.MarshalText()
	if err != nil {
		return ""
	}
	return strings.ToLower(string(text))
}

// Type implements pflag.Value.
func (c *choice) Type() string { return c.name }

// word is a choice that is kept as it is written.
type word string

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *word) UnmarshalText(text []byte) error {
	*w = word(text)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (w *word) MarshalText() ([]byte, error) { return []byte(*w), nil }

// lifetime is a flag of how long a series lives: a duration that the server takes, or "forever". 0: it was not said.
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
