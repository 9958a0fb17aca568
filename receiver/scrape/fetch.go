package scrape

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/sluice-metrics/sluice/metric"
)

// Limits of a page.
const (
	maxWire         = 1 << 20 // as received
	maxDecompressed = 4 << 20
	maxHeader       = 4 << 10 // exporters send a few hundred bytes; in memory it is twenty times as much
	maxTimeout      = 10 * time.Second
)

// timeoutOf is below the interval, so a target has one request in flight at most.
func timeoutOf(interval time.Duration) time.Duration { return min(interval/10*9, maxTimeout) }

// result is how a scrape ended: a label value of Sluice's own metrics.
type result string

// The results.
const (
	ok          result = "ok"
	unreachable result = "unreachable" // the connection failed, or broke
	timedOut    result = "timeout"
	moved       result = "moved" // the pod does not hold the address alone
	badStatus   result = "status"
	tooLarge    result = "too_large"
	unreadable  result = "unreadable" // the encoding, or the text of a named metric
	missing     result = "missing"    // the page has none of the named metrics
	rejected    result = "rejected"   // all samples were rejected
)

var results = []result{ok, unreachable, timedOut, moved, badStatus, tooLarge, unreadable, missing, rejected}

// resultOf reads what an agent says.
func resultOf(text string) result {
	if r := result(text); slices.Contains(results, r) {
		return r
	}
	return unreachable
}

// fault is why a scrape failed.
type fault struct {
	result
	text string
}

func (f *fault) Error() string { return f.text }

func failed(r result, format string, args ...any) *fault {
	return &fault{r, metric.Truncate(metric.Mask(fmt.Sprintf(format, args...)), maxFault)}
}

// maxFault bounds the text of a fault, which may quote the pod.
const maxFault = 400

// errTooLarge is a part of a page over its limit.
type errTooLarge struct {
	what  string
	limit int
}

func (e errTooLarge) Error() string {
	return e.what + " have more than " + strconv.Itoa(e.limit>>20) + " MiB"
}

// errMoved: the address is not the pod's own.
var errMoved = errors.New("the pod does not hold its address alone")

// limited reads at most some bytes; one more is an error, never a shorter page.
type limited struct {
	from io.Reader
	left int
	over errTooLarge
}

func (l *limited) Read(to []byte) (int, error) {
	n, err := l.from.Read(to)
	if l.left -= n; l.left < 0 {
		return 0, l.over
	}
	return n, err
}

// page is what a fetch leaves behind, and its memory, which is reused from page to page.
type page struct {
	filter
	wire   limited
	plain  limited
	buffer *bufio.Reader
	gzip   *gzip.Reader
}

func newPage() *page { return &page{buffer: bufio.NewReaderSize(nil, 16<<10)} }

// client makes the HTTP client. It connects to the address of the target in the request's context, whatever
// the URL says.
func (f *Fetcher) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            f.dial,
			DisableKeepAlives:      true, // a kept connection could be that of a pod that had the address before
			DisableCompression:     true, // limits hold before and after it
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// shownURL is the URL as it is logged: a path may have a token.
func shownURL(t *metric.ScrapeTarget) string { return metric.Mask(urlOf(t)) }

func urlOf(t *metric.ScrapeTarget) string {
	return "http://" + netip.AddrPortFrom(t.Address, t.Port).String() + t.Path
}

type targetKey struct{}

// dial connects to a target, if the pod holds the address alone, and still does once connected.
func (f *Fetcher) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	t, _ := ctx.Value(targetKey{}).(*metric.ScrapeTarget)
	if t == nil || !f.parts.Holds(t) {
		return nil, errMoved
	}
	conn, err := f.parts.Dial(ctx, netip.AddrPortFrom(t.Address, t.Port))
	if err == nil && !f.parts.Holds(t) {
		_ = conn.Close()
		return nil, errMoved
	}
	return conn, err
}

// fetch gets a page and filters it.
func (f *Fetcher) fetch(ctx context.Context, t *metric.ScrapeTarget, wanted map[string]*wanted, into *page) *fault {
	defer func() { into.wire.from, into.plain.from = nil, nil }()
	timeout := timeoutOf(t.Interval)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, targetKey{}, t), timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, urlOf(t), nil)
	if err != nil {
		return failed(unreadable, "%v", err)
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1")
	request.Header.Set("Accept-Encoding", "gzip")
	request.Header.Set("User-Agent", f.parts.Agent)
	response, err := f.http.Do(request)
	if err != nil {
		return worded(err, timeout)
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written
	if response.StatusCode != http.StatusOK {
		return failed(badStatus, "the answer is %d %s; must be 200 OK, redirects are not followed",
			response.StatusCode, http.StatusText(response.StatusCode)) // the pod's own words may be any
	}
	contentType, encoding := response.Header.Get("Content-Type"), response.Header.Get("Content-Encoding")
	response.Header = nil // it would stay while the body is read, which is for seconds
	openMetrics, fault := formatOf(contentType)
	if fault == nil {
		fault = into.open(response.Body, encoding)
	}
	if fault != nil {
		return fault
	}
	if err := into.read(wanted, openMetrics, into.buffer); err != nil {
		return worded(err, timeout)
	}
	return nil
}

// open makes the buffer read the body, decompressed.
func (p *page) open(body io.Reader, encoding string) *fault {
	p.wire = limited{body, maxWire, errTooLarge{"the bytes of the page", maxWire}}
	p.plain = limited{&p.wire, maxDecompressed, errTooLarge{"the decompressed bytes of the page", maxDecompressed}}
	switch encoding {
	case "", "identity":
	case "gzip":
		if p.gzip == nil {
			p.gzip = new(gzip.Reader)
		}
		if err := p.gzip.Reset(&p.wire); err != nil {
			return worded(err, 0)
		}
		p.plain.from = p.gzip
	default:
		return failed(unreadable, "the page has the Content-Encoding %.40q; must be gzip or none", encoding)
	}
	p.buffer.Reset(&p.plain)
	return nil
}

// formatOf reads a Content-Type. Pages without one are text.
func formatOf(contentType string) (openMetrics bool, f *fault) {
	if contentType == "" {
		return false, nil
	}
	switch media, _, err := mime.ParseMediaType(contentType); {
	case err == nil && media == "application/openmetrics-text":
		return true, nil
	case err == nil && media == "text/plain":
		return false, nil
	}
	return false, failed(unreadable, "the page has the Content-Type %.80q; must be text/plain or application/openmetrics-text", contentType)
}

// worded sorts an error of a request.
func worded(err error, timeout time.Duration) *fault {
	var large errTooLarge
	var network net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &large):
		return failed(tooLarge, "%v", large)
	case errors.Is(err, errLongLine):
		return failed(tooLarge, "%v", errLongLine)
	case errors.Is(err, errMoved):
		return failed(moved, "%v", errMoved)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return failed(timedOut, "no complete page within %v", timeout)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return failed(unreadable, "the page is no valid gzip: %v", err)
	case errors.As(err, &op):
		return failed(unreachable, "%s: %v", op.Op, op.Err)
	}
	var inURL interface{ Unwrap() error }
	if errors.As(err, &inURL) && inURL.Unwrap() != nil {
		err = inURL.Unwrap() // without the URL, which stands beside it
	}
	return failed(unreachable, "%v", err)
}
