package main

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/config"
	"github.com/sluice-metrics/sluice/metric"
)

// targeted is a flag's value that sets a variable of another type.
type targeted interface{ target() any }

// durations is a flag of comma-separated durations. A value replaces the list.
type durations struct{ list *[]time.Duration }

// Set implements pflag.Value.
func (d *durations) Set(s string) error {
	var list []time.Duration
	for _, piece := range strings.Split(s, ",") {
		one, err := time.ParseDuration(strings.TrimSpace(piece))
		if err != nil {
			return errors.New("must be a list of durations, as in 10s,1m (units are s, m and h)")
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

func (d *durations) target() any { return d.list }

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

func (w *words) target() any { return w.list }

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

func (s *size[N]) String() string { return config.Bytes(*s.bytes).String() }

// Type implements pflag.Value.
func (s *size[N]) Type() string { return "size" }

func (s *size[N]) target() any { return s.bytes }

// choice is a flag that takes one of a few words. Its variable is a string, or a type that converts
// itself to and from text.
type choice struct {
	variable any
	words    []string
}

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	word := strings.ToLower(s)
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("must be %s%s", oneOf(c.words), didYouMean(word, c.words))
	}
	if variable, ok := c.variable.(*string); ok {
		*variable = word
		return nil
	}
	return c.variable.(encoding.TextUnmarshaler).UnmarshalText([]byte(word))
}

func (c *choice) String() string {
	if variable, ok := c.variable.(*string); ok {
		return *variable
	}
	text, err := c.variable.(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return ""
	}
	return strings.ToLower(string(text))
}

// Type implements pflag.Value.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

func (c *choice) target() any { return c.variable }

// oneOf lists alternatives: "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

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
