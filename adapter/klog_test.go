package adapter

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

func TestKlogGoesToTheLogger(t *testing.T) {
	var out logtest.Buffer
	routeKlog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})).With("stage", "adapter"))
	defer routeKlog(slog.New(slog.DiscardHandler))
	klog.Info("chatter")
	klog.ErrorS(errors.New("cause"), "trouble", "key", "value")
	klog.LoggerWithValues(klog.Background(), "a", 1).WithName("part").Info("derived")
	klog.Flush()
	for _, want := range []string{"level=DEBUG msg=chatter stage=adapter", "level=ERROR msg=trouble stage=adapter", "err=cause", "key=value", "msg=derived", "a=1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// A stop before the cluster was read is not an error.
func TestAStopIsNoError(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelInfo: "", slog.LevelDebug: "level=DEBUG msg=\"Unable to sync caches\""} {
		var out logtest.Buffer // goroutines of a server that has stopped may still log
		routeKlog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))
		stopped := make(chan struct{})
		close(stopped)
		cache.WaitForNamedCacheSync("test", stopped, func() bool { return false })
		klog.Flush()
		routeKlog(slog.New(slog.DiscardHandler))
		if text := out.String(); strings.Contains(text, "level=ERROR") || !strings.Contains(text, want) || want == "" && text != "" {
			t.Errorf("at %v the log says %q, want %q", level, text, want)
		}
	}
}

// A hundred repetitions of an error make one line, and a later one with their number.
func TestRepetitionsAreSuppressed(t *testing.T) {
	var l repetitions
	began := time.Now()
	passed, last := 0, slog.Record{}
	for i := range 101 {
		r := slog.NewRecord(began.Add(time.Duration(i)*repeatAfter/100), slog.LevelError, "Unhandled Error", 0)
		if l.pass(&r) {
			passed++
			last = r
		}
	}
	if passed != 2 || last.NumAttrs() != 1 {
		t.Errorf("%d lines, the last with %d attributes; want 2, and how many were suppressed", passed, last.NumAttrs())
	}
	last.Attrs(func(a slog.Attr) bool {
		if a.Value.Int64() != 99 {
			t.Errorf("%v, want 99", a)
		}
		return true
	})
	other := slog.NewRecord(began, slog.LevelError, "another", 0)
	if !l.pass(&other) {
		t.Error("another message was suppressed")
	}
}
