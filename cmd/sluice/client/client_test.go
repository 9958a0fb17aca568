package client

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
)

// called runs one command line and returns what it did.
func called(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return calledWith(t, "", args...)
}

func calledWith(t *testing.T, input string, args ...string) (code int, out, errs string) {
	t.Helper()
	for range 5 {
		began := time.Now()
		code, out, errs = commandtest.Run(command.NewRoot("", Commands()...), input, args...)
		if !strings.Contains(errs, "does not answer") || time.Since(began) < connectPatience {
			break
		} // otherwise the machine was too slow for a connection
	}
	return code, out, errs
}
