package adapter

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestKlogGoesToTheLogger(t *testing.T) {
	var out bytes.Buffer
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
