package kubelet

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// cutLabels reads the labels that a line has after its name. Without braces there are none.
func cutLabels(line []byte) (c metric.Container, rest []byte, ok bool) {
	if len(line) == 0 || line[0] != '{' {
		return c, line, true
	}
	line = line[1:]
	for {
		line = bytes.TrimLeft(line, " \t,")
		if len(line) > 0 && line[0] == '}' {
			return c, line[1:], true
		}
		key, after, found := bytes.Cut(line, []byte(`="`))
		if !found {
			return c, nil, false
		}
		value, after, found := cutQuoted(after)
		if !found {
			return c, nil, false
		}
		switch string(bytes.TrimSpace(key)) {
		case "namespace":
			c.Namespace = value
		case "pod":
			c.Pod = value
		case "container":
			c.Name = value
		}
		line = after
	}
}

// cutQuoted reads up to the closing quote.
func cutQuoted(line []byte) (value string, rest []byte, ok bool) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return unescape(string(line[:i])), line[i+1:], true
		}
	}
	return "", nil, false
}

var escapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return escapes.Replace(s)
}

// numbers reads the value, and the timestamp in milliseconds if there is one.
func numbers(text []byte, now time.Time) (value float64, at time.Time, ok bool) {
	fields := strings.Fields(string(text))
	if len(fields) != 1 && len(fields) != 2 {
		return 0, at, false
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return 0, at, false
	}
	if len(fields) == 1 {
		return value, now, true
	}
	millis, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || millis <= 0 || millis > maxSeconds*1000 {
		return 0, at, false
	}
	return value, time.UnixMilli(millis), true
}
