package client

import (
	"testing"

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
	return commandtest.Run(command.NewRoot("", Commands()...), input, args...)
}
