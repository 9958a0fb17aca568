package kubelet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Limits of a page.
const (
	maxPage       = 32 << 20
	maxLine       = 16 << 10
	maxContainers = 20_000
)

// family is how a line of a name is read into a Reading.
type family struct {
	ofNode bool
	limit  float64 // values are below it
	set    func(r *metric.UsageReading, value float64, at time.Time) (again bool)
}

var families = map[string]family{
	"node_cpu_usage_seconds_total":       {true, maxSeconds, setCPU},
	"node_memory_working_set_bytes":      {true, maxBytes, setMemory},
	"container_cpu_usage_seconds_total":  {false, maxSeconds, setCPU},
	"container_memory_working_set_bytes": {false, maxBytes, setMemory},
	"container_start_time_seconds":       {false, maxSeconds, setStarted},
}

// What a number of nanoseconds holds, and more memory than there is.
const maxSeconds, maxBytes = 9e9, 1 << 62

func setCPU(r *metric.UsageReading, value float64, at time.Time) (again bool) {
	if !r.CPUAt.IsZero() {
		return true
	}
	r.CPU, r.CPUAt = time.Duration(value*1e9), at
	return false
}

func setMemory(r *metric.UsageReading, value float64, at time.Time) (again bool) {
	if !r.MemoryAt.IsZero() {
		return true
	}
	r.Memory, r.MemoryAt = uint64(value), at
	return false
}

func setStarted(r *metric.UsageReading, value float64, _ time.Time) (again bool) {
	if !r.Started.IsZero() {
		return true
	}
	r.Started = time.Unix(0, int64(value*1e9))
	return false
}

type parser struct{ metric.UsagePage }

// Parse reads a page. Lines without a timestamp are of the moment now. An error is about the page as a whole.
func Parse(page io.Reader, now time.Time) (*metric.UsagePage, error) {
	p := &parser{UsagePage: metric.UsagePage{Readings: map[metric.Container]metric.UsageReading{}}}
	limited := &io.LimitedReader{R: page, N: maxPage + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	for number := 1; lines.Scan(); number++ {
		line := lines.Bytes()
		name := line[:nameLength(line)]
		f, wanted := families[string(name)]
		if !wanted {
			continue
		}
		if why := p.read(f, line[len(name):], now); why != "" {
			p.Fault("line %d, %s: %s", number, name, why)
		}
		if len(p.Readings) > maxContainers {
			return nil, fmt.Errorf("the page has more than %d containers", maxContainers)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("the page has a line of more than %d bytes", maxLine)
	case err != nil:
		return nil, err
	case limited.N <= 0:
		return nil, fmt.Errorf("the page has more than %d bytes", maxPage)
	}
	return &p.UsagePage, nil
}

func nameLength(line []byte) int {
	if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
		return end
	}
	return len(line)
}

// read reads what follows the name on a line, and returns what is wrong with it.
func (p *parser) read(f family, rest []byte, now time.Time) (why string) {
	labels, rest, ok := cutLabels(rest)
	if !ok {
		return "the labels cannot be read"
	}
	value, at, ok := numbers(rest, now)
	switch {
	case !ok:
		return "a number cannot be read"
	case !(value >= 0 && value < f.limit):
		return fmt.Sprintf("the value is %v", value)
	}
	if f.ofNode {
		labels = metric.Container{}
	} else if labels.Namespace == "" || labels.Pod == "" || labels.Name == "" {
		return "namespace, pod or container is not named"
	}
	r := p.Readings[labels]
	if f.set(&r, value, at) {
		return "said twice"
	}
	p.Readings[labels] = r
	return ""
}
