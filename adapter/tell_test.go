package adapter

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitsAreTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		states []string // one a second; empty: ready. The last one stays.
		lasts  time.Duration
		want   []string // each line's "for" and reason, and "over"
	}{
		{"ready at once", []string{""}, time.Minute, []string{"over"}},
		{"ready in a moment", []string{"map", ""}, time.Minute, []string{"over"}},
		{"a long wait", []string{"map"}, 70 * time.Second, []string{"2s map", "32s map", "1m2s map"}},
		{"another reason", []string{"map", "map", "map", "map", "names"}, 20 * time.Second, []string{"2s map", "4s names"}},
		{"a wait again", []string{"", "", "", "names", "names", ""}, time.Minute, []string{"over", "0s names", "over"}},
		{"told, over, and again", []string{"map", "map", "map", "", "names", ""}, time.Minute, []string{"2s map", "over", "0s names", "over"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
					ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
						if a.Key == "for" || a.Key == "reason" {
							return a
						}
						return slog.Attr{}
					},
				}))
				began := time.Now()
				state := func() (bool, string) {
					missing := c.states[min(int(time.Since(began)/time.Second), len(c.states)-1)]
					return missing == "", missing
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.lasts)
				defer cancel()
				logWhileNotReady(ctx, logger, state, func() { out.WriteString("over\n") })
				got := strings.NewReplacer("for=", "", "reason=", "").Replace(strings.TrimSpace(out.String()))
				if want := strings.Join(c.want, "\n"); got != want {
					t.Errorf("told\n%s\nwant\n%s", got, want)
				}
			})
		})
	}
}
