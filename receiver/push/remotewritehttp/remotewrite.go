package remotewritehttp

import (
	"mime"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/remotewrite"
	"github.com/valyala/fasthttp"
)

// written is how much of the request was taken, in its own elements, for the headers of the answer.
type written struct {
	remotewrite.Counts
}

func (w *written) add(c remotewrite.Counts) {
	w.Samples += c.Samples
	w.Histograms += c.Histograms
}

// A Handler serves /api/v1/write.
type Handler struct {
	options    remotewrite.Options
	types      *remotewrite.SenderState
	converters sync.Pool // of *remotewrite.Converter
}

// New makes the handler.
func New(limits httpserver.Config) *Handler {
	o := remotewrite.DefaultOptions()
	o.MaxLabels, o.MaxLabelBytes = limits.MaxLabels, limits.MaxLabelBytes
	return &Handler{
		options:    o,
		types:      remotewrite.NewSenderState(),
		converters: sync.Pool{New: func() any { return remotewrite.NewConverter(o) }},
	}
}

// Routes returns the route of the protocol.
func (h *Handler) Routes() []*httpserver.Route {
	return []*httpserver.Route{{
		Paths: []string{"/api/v1/write"}, Index: []string{"/api/v1/write"},
		Post: h.write, Fail: (*httpserver.Request).FailPush,
		Tag: "protocols", Operations: []httpserver.Operation{{
			Method: "POST", Path: "/api/v1/write", ID: "write",
			Summary:     "Takes Prometheus' remote write, 1.0 and 2.0 (https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/)",
			Description: "400: some of it never can be taken, the rest is written; 403: that is so for its sender alone; 503: sent again it may be.",
			Params:      "sync encoding", Body: "Write", Answers: "204:Written 400:PartlyWritten 503:WriteAgain",
		}},
	}}
}

// write answers POST /api/v1/write. The status is 204 if everything was taken; 400 if some never
// can be, with the first reason, while the rest stays written; 503 if sending the request again
// helps. Nothing counts twice then, because totals and values are absolute.
func (h *Handler) write(x *httpserver.Request) {
	header := &x.HTTP.Request.Header
	version, f := messageVersion(header.ContentType())
	if len(header.Peek(fasthttp.HeaderContentEncoding)) == 0 && header.ContentLength() != 0 {
		header.SetContentEncoding("snappy") // Prometheus ignores Content-Encoding, and npm's client sends none
	}
	var p httpserver.Params
	var body []byte
	if f == nil {
		p, body, f = x.ReadQueryAndBody(httpserver.ParamSync)
	}
	if f != nil {
		x.FailPush(f)
		return
	}
	t, w, f := h.apply(x, body, version)
	sayWritten(x, w)
	if f != nil {
		x.FailPush(f)
		return
	}
	conclude(x, &t, p.Sync)
}

// apply reads and applies a body. The memory that this takes is given back before the answer waits for the disk.
func (h *Handler) apply(x *httpserver.Request, body []byte,
	version remotewrite.Version) (t httpserver.Outcome, w written, f *httpserver.Fault) {
	end, f := x.BeginHeavy(h.options.MostMemory(len(body)))
	if f != nil {
		return t, w, f
	}
	defer end()
	converter := h.converters.Get().(*remotewrite.Converter)
	defer h.keep(converter, x)
	converter.Remember(h.types, x.SenderName(), x.ShareName())
	if fault := converter.Reset(body, version, time.Now()); fault.Reason != metric.Applied {
		f = worded(&fault)
		f.Status = fasthttp.StatusBadRequest
		return t, w, f
	}
	t, w = applyRequest(x, converter)
	return t, w, nil
}

// keep closes a converter and pools it, unless it has grown with a large body.
func (h *Handler) keep(converter *remotewrite.Converter, x *httpserver.Request) {
	converter.Close()
	if !x.LargeBody() {
		h.converters.Put(converter)
	}
}

// messageVersion returns the version of the message that a Content-Type names. The default is 1.0.
func messageVersion(contentType []byte) (remotewrite.Version, *httpserver.Fault) {
	if len(contentType) == 0 {
		return remotewrite.V1, nil
	}
	const media, first, second = "application/x-protobuf", "prometheus.WriteRequest", "io.prometheus.write.v2.Request"
	said, params, err := mime.ParseMediaType(string(contentType))
	proto, told := params["proto"]
	switch {
	case err == nil && said == media && (!told || proto == first):
		return remotewrite.V1, nil
	case err == nil && said == media && proto == second:
		return remotewrite.V2, nil
	}
	f := httpserver.BadRequest("Content-Type %q is not supported; must be %s, by itself or with ;proto=%s or ;proto=%s",
		httpserver.Clip(contentType), media, first, second)
	f.Status, f.Reason = fasthttp.StatusUnsupportedMediaType, "content_type"
	return 0, f
}

// noLines are the Lines of a body that has none. The kind of its samples may be another than guessed.
type noLines struct{ *remotewrite.Converter }

func (noLines) LineNumber() int { return 0 }

// applyRequest applies the samples of a request. Each sample given to the table is counted once;
// written counts the elements of the request that it stands for, as all series of a classic
// histogram.
func applyRequest(x *httpserver.Request, converter *remotewrite.Converter) (t httpserver.Outcome, w written) {
	t, a := x.BeginBatch()
	converter.UseCache(a, t.Sender)
	for n := 1; converter.Next(); n++ {
		if n%httpserver.BatchLines == 0 {
			a.Quiesce()
		}
		switch {
		case converter.Known >= 0:
			if !a.ApplyKnownSample(converter.Known, &converter.Sample) {
				converter.ReadKnown()
				continue
			}
			t.Applied++
			w.add(converter.Of)
		case converter.Fault.Reason != metric.Applied:
			// A rejected series counts for each of its samples, parts of a histogram as the series they would have been.
			x.RejectSamples(&t, converter.Entries, converter.Fault.Reason,
				func() *httpserver.Fault { return worded(&converter.Fault) })
		default:
			a = applySample(x, converter, &t, a, &w)
		}
	}
	w.add(converter.Superseded)
	w.add(converter.Held)
	x.CountRejected(httpserver.BadRequest("parts of a histogram are missing"), "", converter.Lost)
	t.Applied += converter.Superseded.Samples
	x.EndBatch(&t, a)
	return t, w
}

// applySample applies a sample whose series was read. It returns the applier of the next sample.
func applySample(
	x *httpserver.Request, converter *remotewrite.Converter, t *httpserver.Outcome,
	a *httpserver.PooledApplier, w *written,
) *httpserver.PooledApplier {
	before := t.Rejected
	after := x.ApplySample(t, a, &converter.Sample, noLines{converter})
	if t.Rejected == before {
		w.add(converter.Of)
	}
	if after != a {
		converter.UseCache(after, t.Sender)
	}
	return after
}

func worded(what *remotewrite.Fault) *httpserver.Fault {
	return httpserver.Rejected(what.Reason, "%s", what.Error())
}

// sayWritten sets the headers that 2.0 requires. Exemplars are not kept.
func sayWritten(x *httpserver.Request, w written) {
	header := &x.HTTP.Response.Header
	header.Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(w.Samples))
	header.Set("X-Prometheus-Remote-Write-Histograms-Written", strconv.Itoa(w.Histograms))
	header.Set("X-Prometheus-Remote-Write-Exemplars-Written", "0")
}

// conclude answers. A limit does not make the client try again: the limit is the same a minute
// later, and a client that retries until it succeeds holds up everything behind.
func conclude(x *httpserver.Request, t *httpserver.Outcome, sync httpserver.Sync) {
	status := fasthttp.StatusNoContent
	f := x.Denial(t)
	if t.Early > 0 {
		f = httpserver.NotYet("") // sent again, everything else counts once
	}
	switch {
	case f != nil:
		x.FailHeaders(f)
		status = f.Status
	case t.Rejected > 0:
		status = fasthttp.StatusBadRequest
	}
	x.ReplyOutcome(status, t, sync)
	if x.HTTP.Response.StatusCode() == fasthttp.StatusNoContent {
		x.HTTP.Response.ResetBody()
		x.HTTP.Response.Header.Del(fasthttp.HeaderContentType)
	}
}
