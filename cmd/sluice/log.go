package main

import (
	"io"
	"log/slog"
)

// newLogger logs to out in the format that was asked for.
func newLogger(out io.Writer, cfg logConfig) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.level}
	if cfg.format == "json" {
		options.ReplaceAttr = spellDurations
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

// spellDurations writes durations as text does, "1.5s": a bare number of nanoseconds says nothing to who reads it.
func spellDurations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
