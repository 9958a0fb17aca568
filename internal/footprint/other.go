//go:build !linux

package footprint

import (
	"errors"
	"time"
)

func cpuTime() time.Duration { return 0 }

func dropProgram() error { return errors.ErrUnsupported }
