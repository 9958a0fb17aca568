package statsd

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func seed(add func(packet []byte, dialect uint8)) {
	for _, cases := range [][]grammarCase{statsdCases, dogstatsdCases} {
		for _, c := range cases {
			add([]byte(c.packet), uint8(StatsD))
			add([]byte(c.packet), uint8(DogStatsD))
		}
	}
	for _, c := range nameTagCases {
		add([]byte(c.packet), uint8(c.dialect))
	}
}

// FuzzScanner holds for any bytes: no panic; a line that is not blank gives a sample or a fault; a
// fault's offset is in its line; a sample keeps the bounds that metric.Sample states, and written
// out again it is read as the same.
func FuzzScanner(f *testing.F) {
	seed(func(packet []byte, dialect uint8) { f.Add(packet, dialect) })
	f.Fuzz(func(t *testing.T, packet []byte, dialect uint8) {
		options := DefaultOptions()
		options.Dialect = Dialect(dialect % uint8(len(dialectNames)))
		before := slices.Clone(packet)
		lines := map[int]int{}
		s := NewScanner(options)
		for s.Reset(packet); s.Next(); {
			lines[s.LineOffset()]++
			if s.Fault.Reason != metric.Applied {
				if s.Fault.Offset < s.LineOffset() || s.Fault.Offset > s.LineOffset()+len(s.Line()) {
					t.Fatalf("fault at %d of a line at %d of %d bytes", s.Fault.Offset, s.LineOffset(), len(s.Line()))
				}
				if text := s.Fault.Explain(s.Line()); text == "" || s.Fault.detail == noDetail || len(text) > 512 {
					t.Fatalf("fault of detail %d in %q is explained by %q", s.Fault.detail, s.Line(), text)
				}
				continue
			}
			checkBounds(t, &s.Sample, packet)
			checkAgain(t, s, options)
		}
		if !bytes.Equal(before, packet) {
			t.Fatal("the packet was written to")
		}
		at := 0
		for _, line := range bytes.SplitAfter(packet, []byte("\n")) {
			blank := len(line) == 0 || string(line) == "\n" || string(line) == "\r\n" || string(line) == "\r"
			if (lines[at] == 0) != blank {
				t.Fatalf("line %q gave %d samples and faults", line, lines[at])
			}
			at += len(line)
		}
	})
}

func checkBounds(t *testing.T, s *metric.Sample, packet []byte) {
	switch {
	case len(s.Name) == 0, s.Kind == metric.NoKind, s.Op == metric.NoOp:
		t.Fatalf("sample without name, kind or op: %+v", s)
	case s.Rate < 0, s.Rate > 1, math.IsNaN(s.Rate), math.IsInf(s.Weight(), 0):
		t.Fatalf("rate %v", s.Rate)
	case math.IsNaN(s.Fraction), math.IsInf(s.Fraction, 0):
		t.Fatalf("fraction %v", s.Fraction)
	case s.Whole != 0 && math.Abs(s.Fraction) >= 1, math.Abs(s.Fraction) >= 1 && math.Abs(s.Fraction) < 1<<63:
		t.Fatalf("number %d and %v", s.Whole, s.Fraction)
	case s.Whole > 0 && s.Fraction < 0, s.Whole < 0 && s.Fraction > 0:
		t.Fatalf("signs differ: %d and %v", s.Whole, s.Fraction)
	case (s.Kind == metric.Set) != (len(s.Member) > 0):
		t.Fatalf("%v with member %q", s.Kind, s.Member)
	case bytes.Contains(s.Tags, []byte("|")), !bytes.Contains(packet, s.Tags):
		t.Fatalf("tags %q", s.Tags)
	}
}

func checkAgain(t *testing.T, s *Scanner, options Options) {
	line := render(&s.Sample, options.Dialect)
	if len(line) > options.MaxLine {
		return // a number written out without its exponent
	}
	want := describe(s)
	again := NewScanner(options)
	again.Reset(line)
	if !again.Next() || describe(again) != want || again.Next() {
		t.Fatalf("%q was read as %s\nand %q, written from it, as %s", s.Line(), want, line, describe(again))
	}
}

var typeNames = map[metric.Kind]string{metric.Counter: "c", metric.Gauge: "g", metric.Timer: "ms", metric.Set: "s"}

// render writes a sample as a line of the dialect.
func render(s *metric.Sample, d Dialect) []byte {
	line := slices.Clone(s.Name)
	if s.Tags != nil && s.Separator == '=' {
		line = append(line, map[Dialect]byte{Influx: ',', Librato: '#', SignalFx: '['}[d])
		line = append(line, s.Tags...)
		if d == SignalFx {
			line = append(line, ']')
		}
	}
	line = append(line, ':')
	line = append(appendValue(line, s), '|')
	line = append(line, typeNames[s.Kind]...)
	if s.Rate != 0 {
		line = strconv.AppendFloat(append(line, "|@"...), s.Rate, 'g', -1, 64)
	}
	if s.Tags != nil && s.Separator == ':' {
		line = append(append(line, "|#"...), s.Tags...)
	}
	if s.Container != nil {
		line = append(append(line, "|c:"...), s.Container...)
	}
	if s.External != nil {
		line = append(append(line, "|e:"...), s.External...)
	}
	if s.Dated != 0 {
		line = strconv.AppendInt(append(line, "|T"...), s.Date().Unix(), 10)
	}
	return append(line, '|') // so that a last "\r" stays what it is
}

func appendValue(line []byte, s *metric.Sample) []byte {
	negative := s.Whole < 0 || s.Fraction < 0
	switch {
	case s.Op == metric.Insert:
		return append(line, s.Member...)
	case s.Op == metric.Shift && !negative:
		line = append(line, '+')
	}
	if math.Abs(s.Fraction) >= 1 {
		return strconv.AppendFloat(line, s.Fraction, 'g', -1, 64)
	}
	if negative {
		line = append(line, '-')
	}
	magnitude := uint64(s.Whole)
	if s.Whole < 0 {
		magnitude = -magnitude
	}
	line = strconv.AppendUint(line, magnitude, 10)
	if s.Fraction != 0 {
		line = append(line, strconv.FormatFloat(math.Abs(s.Fraction), 'f', -1, 64)[1:]...)
	}
	return line
}
