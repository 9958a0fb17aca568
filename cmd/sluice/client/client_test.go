package client

import (
	"os"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
)

func TestMain(m *testing.M) {
	ConnectTimeout = time.Hour
	os.Exit(m.Run())
}

// called runs one command line and returns what it did.
func called(args ...string) (code int, out, errs string) {
	return calledWith("", args...)
}

func calledWith(input string, args ...string) (code int, out, errs string) {
	return commandtest.Run(command.NewRoot("", Commands()...), input, args...)
}
