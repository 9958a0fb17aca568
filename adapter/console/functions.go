package console

import (
	"fmt"
	"html/template"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// functions are what templates may call.
var functions = template.FuncMap{
	"name": breakable, "ago": ago, "link": address, "count": grouped, "labels": labelText, "join": strings.Join,
	"percent": percent, "short": short, "tryAgain": tryAgain, "sentence": explain.Sentence, "replicas": replicas,
	"device": device,
}

// replicas is the noun behind a number.
func replicas(n *int32) string {
	if *n == 1 {
		return "replica"
	}
	return "replicas"
}

// device is the file by which bash sends to a UDP address.
func device(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return "/dev/udp/" + host + "/" + port
}

// ago is an age for people, with its time for pages that don't follow any more.
func ago(then time.Time) template.HTML {
	if then.IsZero() {
		return "never"
	}
	return template.HTML(`<time datetime="` + then.UTC().Format(time.RFC3339) + `">` + inspect.Age(time.Since(then)) + " ago</time>") //nolint:gosec // nothing from outside
}

// address makes the address of a page, of names and values in turn.
func address(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return "/" + path
	}
	return "/" + path + "?" + q.Encode()
}

// grouped writes a number with a thin space between thousands.
func grouped(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u2009" + digits[i:]
	}
	return digits
}

// mebibytes is a size for people.
func mebibytes(n int64) string {
	const mebibyte = 1 << 20
	if n < 10*mebibyte {
		return strconv.FormatFloat(float64(n)/mebibyte, 'f', 1, 64) + " MiB"
	}
	return grouped(n/mebibyte) + " MiB"
}

// short writes a number or a quantity with three significant digits: 9966666667n is 9.97. All digits before
// the point stay, and so do whole numbers and those with a suffix that makes them shorter.
func short(text string) string {
	v, fraction := explain.Number(text), strings.HasSuffix(text, "m") || strings.HasSuffix(text, "u") || strings.HasSuffix(text, "n")
	_, err := strconv.ParseFloat(text, 64)
	switch plain := err == nil; {
	case math.IsNaN(v) || plain && !strings.ContainsAny(text, ".e") || !plain && !fraction:
		return text
	case math.Abs(v) >= 100 && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// percent is a share of a whole, for the widths of bars.
func percent(part, whole uint64) string {
	if whole == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3f", 100*float64(part)/float64(whole))
}
