package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
)

// targeted is a flag's value that sets a variable of another type.
type targeted interface{ Target() any }

// durations is a flag of comma-separated durations. A value replaces the list.
type durations struct{ list *[]time.Duration }

// Set implements pflag.Value.
func (d *durations) Set(s string) error {
	var list []time.Duration
	for _, piece := range strings.Split(s, ",") {
		duration, err := time.ParseDuration(strings.TrimSpace(piece))
		if err != nil {
			return errors.New("must be a list of durations, as in 10s,1m (units are s, m and h)")
		}
		list = append(list, duration)
	}
	*d.list = list
	return nil
}

func (d *durations) String() string {
	pieces := make([]string, len(*d.list))
	for i, duration := range *d.list {
		pieces[i] = metric.FormatWindow(duration)
	}
	return strings.Join(pieces, ",")
}

// Type implements pflag.Value.
func (d *durations) Type() string { return "durations" }

func (d *durations) Target() any { return d.list }

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

func (w *words) Target() any { return w.list }

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

func (s *size[N]) Target() any { return s.bytes }
