//go:build !linux

package loadtest

import (
	"context"
	"errors"
)

// floodLoad is the prepared load of a scenario.
type floodLoad struct{}

// figureScenarios is empty: these scenarios need Linux.
var figureScenarios []Scenario

var errLinux = errors.New("the load test needs Linux: it sends with sendmmsg and reads /proc")

// Measure returns an error: it needs Linux.
func Measure(context.Context, Config) (*Report, error) { return nil, errLinux }

// FloorMain reports that the process is no floor: floors need Linux.
func FloorMain() (code int, isFloor bool) { return 0, false }
