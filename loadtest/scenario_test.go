package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
)

func TestInterruptionSaysHowFarItWas(t *testing.T) {
	ended := &url.Error{Op: "Get", URL: "http://127.0.0.1/metrics", Err: context.Canceled}
	stuck := errors.New("sluice was still running 30s after it was asked to end")
	for want, err := range map[string]error{
		"interrupted: 2 of 5 runs were finished":                   fmt.Errorf("among 10 pods: %w", errors.Join(ended, nil)),
		"interrupted: 2 of 5 runs were finished\n" + stuck.Error(): errors.Join(ended, fmt.Errorf("again: %w", errors.Join(context.Canceled, stuck))),
	} {
		i := &interruption{finished: 2, of: 5, besides: besidesTheEnd(err)}
		if i.Error() != want || !errors.Is(i, context.Canceled) {
			t.Errorf("%q, want %q", i, want)
		}
	}
}
