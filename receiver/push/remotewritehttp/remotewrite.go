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

// written is what the answer's headers say was taken, in the elements of the request.
type written struct {
	remotewrite.Counts
}

func (w *written) add(c remotewrite.Counts) {
	w.Samples += c.Samples
	w.Histograms += c.Histograms
}

// A remoteHandler serves /api/v1/write.
type Handler struct {
	remembered *remotewrite.SenderState
	feeds      sync.Pool // of *remotewrite.Converter
}

// newRemote makes the handler.
func New(limits httpserver.Config) *Handler {
	o := remotewrite.DefaultOptions()
	o.MaxLabels, o.MaxLabelBytes = limits.MaxLabels, limits.MaxLabelBytes
	return &Handler{
		remembered: remotewrite.NewSenderState(),
		feeds:      sync.Pool{New: func() any { return remotewrite.NewConverter(o) }},
	}
}

// routes returns the handler's routes.
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

// write answers POST /api/v1/write, of Prometheus and of all that writes as it does: 204 where all was taken; 400 where
// some of it never can be, which says the first reason, while the rest stays written; 503 where to send it again
// helps. Sent again, nothing counts twice: totals and values are what they are.
func (h *Handler) write(x *httpserver.Request) {
	header := &x.HTTP.Request.Header
	version, f := messageVersion(header.ContentType())
	if len(header.Peek(fasthttp.HeaderContentEncoding)) == 0 && header.ContentLength() != 0 {
		header.SetContentEncoding("snappy") // Prometheus looks at no Content-Encoding, and npm's client sends none
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
	feed := h.feeds.Get().(*remotewrite.Converter)
	defer h.keep(feed, x)
	feed.Remember(h.remembered, x.SenderName())
	if fault := feed.Reset(body, version, time.Now()); fault.Reason != metric.Applied {
		sayWritten(x, written{})
		f := httpserver.Rejected(fault.Reason, "%s", fault.Error())
		f.Status = fasthttp.StatusBadRequest
		x.FailPush(f)
		return
	}
	t, w := applyFeed(x, feed)
	sayWritten(x, w)
	conclude(x, &t, p.Sync)
}

// keep closes a feed and keeps it for the next request, unless it has grown with a large body.
func (h *Handler) keep(feed *remotewrite.Converter, x *httpserver.Request) {
	feed.Close()
	if !x.LargeBody() {
		h.feeds.Put(feed)
	}
}

// messageVersion is which message a Content-Type says. Without one, or without its parameter, it is the first version's.
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
	f := httpserver.BadRequest("Content-Type %q is not taken: must be %s, by itself or with ;proto=%s or ;proto=%s", httpserver.Clip(contentType), media, first, second)
	f.Status, f.Reason = fasthttp.StatusUnsupportedMediaType, "content_type"
	return 0, f
}

// remoteSource locates faults of a remote write, and turns its samples.
type remoteSource struct {
	oneBody
	*remotewrite.Converter
}

// oneBody is what a fault in a body without lines is located by.
type oneBody struct{}

func (oneBody) NextSample() (*metric.Sample, *httpserver.Fault, bool) { return nil, nil, false }
func (oneBody) LineNumber() int                                       { return 0 }

// applyFeed applies what a request holds. What the table is given enters the ledger once; what stands for more of the
// request, as a classic histogram does, is counted so in written.
func applyFeed(x *httpserver.Request, feed *remotewrite.Converter) (t httpserver.Outcome, w written) {
	t, a := x.BeginBatch()
	for n := 1; feed.Next(); n++ {
		if fault := &feed.Fault; fault.Reason != metric.Applied {
			for range feed.Entries {
				enterFault(x, &t, fault)
			}
			continue
		}
		before := t.Refused
		a = x.ApplySample(&t, a, &feed.Sample, remoteSource{Converter: feed})
		if t.Refused == before {
			w.add(feed.Of)
		}
		if n%httpserver.BatchLines == 0 {
			a.Quiesce()
		}
	}
	w.add(feed.Superseded)
	w.add(feed.Held)
	for range feed.Lost {
		x.Count(metric.Malformed)
	}
	t.Applied += feed.Superseded.Samples
	x.EndBatch(&t, a)
	return t, w
}

// enterFault counts what could not be read. A series that cannot be taken counts for each of its samples; parts of one whole, as what
// they would have been.
func enterFault(x *httpserver.Request, t *httpserver.Outcome, what *remotewrite.Fault) {
	if len(t.Errors) < httpserver.MaxErrors {
		x.RejectSample(t, httpserver.Rejected(what.Reason, "%s", what.Error()), oneBody{})
	} else { // nobody will read why
		x.RejectSample(t, &httpserver.Fault{Counted: what.Reason}, oneBody{})
	}
}

// sayWritten sets the headers that 2.0 asks for. Exemplars are not kept.
func sayWritten(x *httpserver.Request, w written) {
	header := &x.HTTP.Response.Header
	header.Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(w.Samples))
	header.Set("X-Prometheus-Remote-Write-Histograms-Written", strconv.Itoa(w.Histograms))
	header.Set("X-Prometheus-Remote-Write-Exemplars-Written", "0")
}

// conclude answers. A limit is no reason to come again: it is the same in a minute, and a sender that tries until it is
// let in holds up all that comes behind.
func conclude(x *httpserver.Request, t *httpserver.Outcome, sync bool) {
	status := fasthttp.StatusNoContent
	f := x.Denial(t)
	if t.Early > 0 {
		f = httpserver.NotYet("") // whatever else is in it: sent again, the rest counts once
	}
	switch {
	case f != nil:
		x.FailHeaders(f)
		status = f.Status
	case t.Refused > 0:
		status = fasthttp.StatusBadRequest
	}
	x.ReplyOutcome(status, t, sync)
	if x.HTTP.Response.StatusCode() == fasthttp.StatusNoContent {
		x.HTTP.Response.ResetBody()
		x.HTTP.Response.Header.Del(fasthttp.HeaderContentType)
	}
}
