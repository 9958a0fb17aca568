//go:build !linux

package loadtest

import (
	"context"
	"errors"
	"io"
)

// FloorFlag makes "sluice loadtest" call Floor.
const FloorFlag = "floor-receiver"

// figureScenarios need Linux.
var figureScenarios []Scenario

var errLinux = errors.New("the load test needs Linux: it sends with sendmmsg and reads /proc")

// Measure is for Linux.
func Measure(context.Context, Config) (*Report, error) { return nil, errLinux }

// Floor is for Linux.
func Floor(context.Context, io.Reader, io.Writer) error { return errLinux }
