package main

import (
	"io"
	"log/slog"
)

// newLogger logs to out in the format that was asked for.
func newLogger(out io.Writer, cfg logConfig) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.level}
	if cfg.format == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}
