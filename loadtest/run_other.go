//go:build !linux

package loadtest

import (
	"context"
	"errors"
	"io"
)

type floodLoad struct{}

// figureScenarios need Linux.
var figureScenarios []Scenario

var errLinux = errors.New("the load test needs Linux: it sends with sendmmsg and reads /proc")

// Measure is for Linux.
func Measure(context.Context, Config) (*Report, error) { return nil, errLinux }

// Floor is for Linux.
func Floor(context.Context, string, io.Reader, io.Writer) error { return errLinux }
