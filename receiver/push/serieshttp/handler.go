package serieshttp

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/internal/collect"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
)

// pagesAtOnce bounds the pages that are written at once, and pagesEach those to one namespace or sender. A page takes a
// processor for a second where there are a million series.
const pagesAtOnce, pagesEach = 6, 2

// A Handler serves the page of all series.
type Handler struct {
	source export.Source
	// histograms reports whether the source keeps the buckets of timers.
	histograms bool
	policies   policy.Checker
	pages      *connlimit.Pages
	gzips      sync.Pool

	complete, aborted, rejected, leftOut atomic.Uint64
}

// New makes the handler. histograms reports whether the source keeps the buckets of timers. Without
// policies every reader gets what its rights allow.
func New(source export.Source, histograms bool, policies policy.Checker) *Handler {
	h := &Handler{source: source, histograms: histograms, policies: policies, pages: connlimit.NewPages(pagesAtOnce, pagesEach)}
	h.gzips.New = func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
		return w
	}
	return h
}

// Routes returns the routes of the protocol.
func (h *Handler) Routes() []*httpserver.Route {
	return []*httpserver.Route{{
		Paths: []string{"/metrics/series"}, Index: []string{"/metrics/series"}, Get: h.expose,
		Tag: "metrics", Operations: []httpserver.Operation{{
			Method: "GET", Path: "/metrics/series", ID: "exposeSeries",
			Summary: "All live series that the sender may read, as an exposition for Prometheus",
			Description: "Counters are totals, gauges their last values, sets the number of members in the default window, timers " +
				"summaries. Labels name the namespace and the object. 429: other pages are being written.",
			Params: "seriesMatch seriesNamespace seriesTimers seriesNaming seriesSeconds accept", Answers: "200:Exposition",
		}},
	}}
}

// expose answers with the page.
func (h *Handler) expose(x *httpserver.Request) {
	options, f := readOptions(x)
	if f == nil && options.Timers == export.Histograms && !h.histograms {
		f = httpserver.BadRequest("timers=histogram needs the setting export-histograms, which is off")
	}
	if f != nil {
		x.Fail(f)
		return
	}
	place, f := x.BeginPage(h.pages, "all series")
	if f != nil {
		if f.Busy() {
			h.rejected.Add(1)
		}
		x.Fail(f)
		return
	}
	options.Readable = h.readable(x)
	options.WithoutTotals = h.source.Persisting() != nil
	page := export.NewPage(h.source, options)
	if f = restrict(x, page); f != nil || x.HTTP.IsHead() {
		place.End()
	}
	if f != nil {
		x.Fail(f)
		return
	}
	zipped := acceptsGzip(x.HTTP.Request.Header.Peek(fasthttp.HeaderAcceptEncoding))
	if !x.HTTP.IsHead() { // fasthttp would close the stream unread
		// The page is written while the request returns to its pool, so it must not use it.
		stream, err := h.begin(page, zipped, place)
		if err != nil {
			x.Fail(httpserver.Unpersisted(err))
			return
		}
		x.HTTP.SetBodyStream(stream, -1)
	}
	x.HTTP.SetContentType(options.Format.ContentType() + "; escaping=" + options.Escaping.String())
	x.HTTP.Response.Header.Set(fasthttp.HeaderVary, "Accept, Accept-Encoding")
	if zipped {
		x.HTTP.Response.Header.Set(fasthttp.HeaderContentEncoding, "gzip")
	}
}

func (h *Handler) write(held *heldWriter, page *export.Page, zipped bool) (err error) {
	var written export.Written
	if zipped {
		zip := h.gzips.Get().(*gzip.Writer)
		defer h.gzips.Put(zip)
		zip.Reset(held)
		if written, err = page.Write(zip); err == nil {
			err = zip.Close()
		}
	} else {
		written, err = page.Write(held)
	}
	if err == nil {
		err = held.release()
	}
	if err != nil {
		h.aborted.Add(1)
		return err
	}
	h.complete.Add(1)
	h.leftOut.Store(uint64(written.LeftOut))
	return nil
}

// acceptsGzip reports whether an Accept-Encoding header has gzip, with a quality above 0.
func acceptsGzip(header []byte) bool {
	for len(header) > 0 {
		var one []byte
		one, header, _ = bytes.Cut(header, []byte{','})
		coding, params, _ := bytes.Cut(one, []byte{';'})
		if bytes.EqualFold(bytes.TrimSpace(coding), []byte("gzip")) {
			return exposition.Quality(string(params)) > 0
		}
	}
	return false
}

// mostHeld is the size at which a page is sent in parts: the memory that a page takes.
const mostHeld = 8 << 20

// heldWriter holds what is written until the totals in it are on disk: at mostHeld bytes, and at the
// end (release).
type heldWriter struct {
	to      io.Writer
	persist func(context.Context) error // nil: nothing must be on disk
	began   chan<- error                // gets the result of the first wait
	text    []byte
}

func (h *heldWriter) Write(text []byte) (int, error) {
	h.text = append(h.text, text...)
	if len(h.text) < mostHeld {
		return len(text), nil
	}
	return len(text), h.release()
}

// release waits for the disk and sends.
func (h *heldWriter) release() error {
	if len(h.text) == 0 && h.began == nil {
		return nil
	}
	var err error
	if h.persist != nil {
		ctx, cancel := context.WithTimeout(context.Background(), httpserver.PersistTimeout)
		err = h.persist(ctx)
		cancel()
	}
	if h.began != nil {
		h.began <- err
		h.began = nil
	}
	if err == nil {
		_, err = h.to.Write(h.text)
		h.text = h.text[:0]
	}
	return err
}

// begin writes a page, and returns a stream once its first part may be sent. A stream that fails
// later ends the connection, so that a scraper doesn't take the part for the whole.
func (h *Handler) begin(page *export.Page, zipped bool, place *connlimit.Page) (io.Reader, error) {
	stream, to := io.Pipe()
	began := make(chan error, 1)
	held := &heldWriter{to: place.Writer(to), began: began}
	if page.HasTotals() {
		held.persist = h.source.Persist
	}
	go func() {
		defer place.End()
		_ = to.CloseWithError(h.write(held, page, zipped))
	}()
	return stream, <-began
}

var (
	pagesDesc = prometheus.NewDesc("sluice_export_pages_total",
		"Pages of all series (GET /metrics/series), by outcome: complete, aborted (the scraper was too slow or went away, or the disk did not answer), rejected (too many at once).",
		[]string{"outcome"}, nil)
	leftOutDesc = prometheus.NewDesc("sluice_export_left_out_series",
		"Series and metrics that the last complete page of all series left out, because others, or Sluice's own metrics, have their names.",
		nil, nil)
)

// Describe implements prometheus.Collector.
func (h *Handler) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, pagesDesc, leftOutDesc)
}

// Collect implements prometheus.Collector.
func (h *Handler) Collect(ch chan<- prometheus.Metric) {
	for outcome, n := range map[string]uint64{"complete": h.complete.Load(), "aborted": h.aborted.Load(),
		"rejected": h.rejected.Load()} {
		collect.Counter(ch, pagesDesc, n, outcome)
	}
	collect.Gauge(ch, leftOutDesc, h.leftOut.Load())
}
