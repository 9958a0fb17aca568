package httpserver

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLibraryLogIsQuotedOnceAndLimited(t *testing.T) {
	var seen bytes.Buffer
	l := &libraryLog{log: slog.New(slog.NewTextHandler(&seen, nil))}
	for range 1000 {
		l.Printf("error %s", "a\x1b[31m\nb"+strings.Repeat("x", 10_000))
	}
	text := strings.TrimSuffix(seen.String(), "\n")
	if strings.ContainsAny(text, "\x1b\n") || len(text) > 2*maxLogged || !strings.Contains(text, `error="error a\x1b[31m\nbxx`) {
		t.Errorf("%q", text)
	}
}
