package otlp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/internal/collect"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	// pointsAtOnce are the series of a request.
	pointsAtOnce = 500
	sendTimeout  = 10 * time.Second
	// mostHeld are the bytes of requests that wait for the disk together, for persistTimeout at most.
	mostHeld       = 8 << 20
	persistTimeout = 5 * time.Second
	// tries is how often a request is sent that the Collector asks to repeat.
	tries      = 3
	retryAfter = time.Second
)

// Exporter exports all series. One goroutine runs it.
type Exporter struct {
	config Config
	source export.Source
	// first reports whether this replica exports: of several, one does.
	first    func() bool
	access   credentials
	host     string // of the Collector: the rest of its URL may have a token
	log      *slog.Logger
	failures ratelog.Limiter

	held     bytes.Buffer // encoded requests, one after the other
	requests []request
	totals   bool // one of them has a total
	falling  map[string]bool
	away     error // why a request of this export failed, though it was repeated; nil: none did

	sent, lost atomic.Uint64 // series
}

// request is an encoded request in Exporter.held.
type request struct{ from, to, points int }

// New makes an Exporter of a valid Config. It reads the files, and fails if it can't.
func New(c Config, source export.Source, first func() bool, log *slog.Logger) (*Exporter, error) {
	e := &Exporter{
		config: c, source: source, first: first, log: log, access: credentials{config: c}, falling: map[string]bool{},
		failures: ratelog.Limiter{Interval: time.Minute},
	}
	if u, err := url.Parse(c.URL); err == nil {
		e.host = u.Host
	}
	return e, e.access.load()
}

// Run exports at each interval until ctx ends.
func (e *Exporter) Run(ctx context.Context) error {
	ticker := time.NewTicker(e.config.Interval)
	defer ticker.Stop()
	defer func() { e.access.client.CloseIdleConnections() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if e.first() {
				e.export(ctx)
			}
		}
	}
}

// export sends all series, in requests one after the other. An interval's series that are not sent
// when the next one begins are late, not lost: the ticker skips.
func (e *Exporter) export(ctx context.Context) {
	if err := e.access.load(); err != nil {
		if suppressed, ok := e.failures.Allow(); ok {
			e.log.Error("cannot reload the credentials of the export to the OpenTelemetry Collector", "error", err,
				"suppressed", suppressed)
		}
	}
	e.away = nil
	persists := e.source.Persisting() == nil
	families := e.source.Families(func(*metric.Family) bool { return true })
	reader, b := e.source.Reader(), newBatch(e.falling)
	flush := func() {
		if b.points > 0 {
			e.hold(ctx, b)
			b = newBatch(e.falling)
		}
	}
	for i := range families {
		for _, k := range metric.Kinds() {
			if !families[i].Kinds.Has(k) || export.Cumulative(k) && !persists {
				continue
			}
			reader.Series(&families[i], k, func(s *metric.LiveSeries) bool {
				if b.add(&families[i], k, s, time.Now()); b.points == pointsAtOnce {
					flush()
				}
				return ctx.Err() == nil
			})
		}
		if ctx.Err() != nil {
			return
		}
	}
	flush()
	e.release(ctx)
}

// hold encodes a request, which release sends.
func (e *Exporter) hold(ctx context.Context, b *batch) {
	from := e.held.Len()
	if err := e.encode(b); err != nil {
		e.held.Truncate(from)
		e.lose(ctx, b.points, err)
		return
	}
	e.requests = append(e.requests, request{from, e.held.Len(), b.points})
	e.totals = e.totals || b.totals
	if e.held.Len() >= mostHeld {
		e.release(ctx)
	}
}

// release sends the requests that are held, once their totals are on disk.
func (e *Exporter) release(ctx context.Context) {
	var err error
	if e.totals {
		within, cancel := context.WithTimeout(ctx, persistTimeout)
		err = e.source.Persist(within)
		cancel()
	}
	for _, r := range e.requests {
		if err := cmp.Or(err, e.away); err != nil {
			e.lose(ctx, r.points, err)
		} else {
			e.deliver(ctx, r)
		}
	}
	e.requests, e.totals, e.held = e.requests[:0], false, bytes.Buffer{}
}

func (e *Exporter) lose(ctx context.Context, points int, err error) {
	e.lost.Add(uint64(points))
	if suppressed, ok := e.failures.Allow(); ok && ctx.Err() == nil {
		e.log.Warn("cannot export series to the OpenTelemetry Collector", "host", e.host, "error", err, "series", points,
			"suppressed", suppressed)
	}
}

// deliver sends a request and counts its series. If the Collector does not take it after all tries, those that follow
// in the export are lost with it: each would take as long, and the values would be older than those of the next export.
func (e *Exporter) deliver(ctx context.Context, r request) {
	body := e.held.Bytes()[r.from:r.to]
	for try := 0; ; try++ {
		again, err := e.post(ctx, body)
		if err == nil {
			e.sent.Add(uint64(r.points))
			return
		}
		if !again || try == tries-1 || !sleep(ctx, retryAfter<<try) {
			e.lose(ctx, r.points, err)
			if again {
				e.away = err
			}
			return
		}
	}
}

func (e *Exporter) encode(b *batch) error {
	plain, err := b.request.MarshalProto()
	if err != nil {
		return err
	}
	w, err := gzip.NewWriterLevel(&e.held, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err = w.Write(plain); err != nil {
		return err
	}
	return w.Close()
}

// post sends an encoded request. again: the Collector asks to repeat it, or could not be reached.
func (e *Exporter) post(ctx context.Context, body []byte) (again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.config.URL, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header = e.access.headers.Clone()
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "gzip")
	request.Header.Set("User-Agent", "sluice")
	answer, err := e.access.client.Do(request)
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return true, of.Err // without the URL
	}
	if err != nil {
		return true, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, mostAnswer) // so that the connection can be used again
	switch answer.StatusCode {
	case http.StatusOK:
		return false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("the Collector answers %s", answer.Status)
}

const mostAnswer = 64 << 10

// sleep returns false if ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

var seriesDesc = prometheus.NewDesc("sluice_export_otlp_series_total",
	"Series for the OpenTelemetry Collector of export-otlp, by outcome: sent, lost.", []string{"outcome"}, nil)

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(ch chan<- *prometheus.Desc) { ch <- seriesDesc }

// Collect implements prometheus.Collector.
func (e *Exporter) Collect(ch chan<- prometheus.Metric) {
	collect.Counter(ch, seriesDesc, e.sent.Load(), "sent")
	collect.Counter(ch, seriesDesc, e.lost.Load(), "lost")
}
