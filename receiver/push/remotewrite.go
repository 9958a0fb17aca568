package push

import (
	"mime"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
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
type remoteHandler struct {
	remembered *remotewrite.Memory
	feeds      sync.Pool // of *remotewrite.Feed
}

// newRemote makes the handler.
func newRemote(limits ServerConfig) *remoteHandler {
	o := remotewrite.DefaultOptions()
	o.MaxLabels, o.MaxLabelBytes = limits.MaxLabels, limits.MaxLabelBytes
	return &remoteHandler{
		remembered: remotewrite.NewMemory(),
		feeds:      sync.Pool{New: func() any { return remotewrite.NewFeed(o) }},
	}
}

// routes returns the handler's routes.
func (h *remoteHandler) Routes() []*Route {
	return []*Route{{
		Paths: []string{"/api/v1/write"}, Index: []string{"/api/v1/write"},
		Post: h.write, Fail: (*exchange).failPush,
	}}
}

// write answers POST /api/v1/write, of Prometheus and of all that writes as it does: 204 where all was taken; 400 where
// some of it never can be, which says the first reason, while the rest stays written; 503 where to send it again
// helps. Sent again, nothing counts twice: totals and values are what they are.
func (h *remoteHandler) write(x *exchange) {
	header := &x.http.Request.Header
	version, f := messageVersion(header.ContentType())
	if len(header.Peek(fasthttp.HeaderContentEncoding)) == 0 && header.ContentLength() != 0 {
		header.SetContentEncoding("snappy") // Prometheus looks at no Content-Encoding, and npm's client sends none
	}
	var p params
	var body []byte
	if f == nil {
		p, body, f = x.readLines(allowSync)
	}
	if f != nil {
		x.failPush(f)
		return
	}
	feed := h.feeds.Get().(*remotewrite.Feed)
	defer h.keep(feed, x)
	feed.Remember(h.remembered, x.senderName())
	if fault := feed.Reset(body, version, time.Now()); fault.Reason != metric.Applied {
		sayWritten(x, written{})
		f := refused(fault.Reason, "%s", fault.Error())
		f.status = fasthttp.StatusBadRequest
		x.failPush(f)
		return
	}
	t, w := applyFeed(x, feed)
	sayWritten(x, w)
	conclude(x, &t, p.sync)
}

// keep closes a feed and keeps it for the next request, unless it has grown with a large body.
func (h *remoteHandler) keep(feed *remotewrite.Feed, x *exchange) {
	feed.Close()
	if !x.largeBody() {
		h.feeds.Put(feed)
	}
}

// messageVersion is which message a Content-Type says. Without one, or without its parameter, it is the first version's.
func messageVersion(contentType []byte) (remotewrite.Version, *fault) {
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
	f := badRequest("Content-Type %q is not taken: must be %s, by itself or with ;proto=%s or ;proto=%s", clip(contentType), media, first, second)
	f.status, f.reason = fasthttp.StatusUnsupportedMediaType, "content_type"
	return 0, f
}

// remoteSource locates faults of a remote write, and turns its samples.
type remoteSource struct {
	oneBody
	*remotewrite.Feed
}

// oneBody is what a fault in a body without lines is located by.
type oneBody struct{}

func (oneBody) nextSample() (*metric.Sample, *fault, bool) { return nil, nil, false }
func (oneBody) lineNumber() int                            { return 0 }

// applyFeed applies what a request holds. What the table is given enters the ledger once; what stands for more of the
// request, as a classic histogram does, is counted so in written.
func applyFeed(x *exchange, feed *remotewrite.Feed) (t tally, w written) {
	t, a := x.beginBatch()
	for n := 1; feed.Next(); n++ {
		if fault := &feed.Fault; fault.Reason != metric.Applied {
			for range feed.Entries {
				enterFault(x, &t, fault)
			}
			continue
		}
		before := t.Refused
		a = x.applyLine(&t, a, &feed.Sample, remoteSource{Feed: feed})
		if t.Refused == before {
			w.add(feed.Of)
		}
		if n%batchLines == 0 {
			a.Pass()
		}
	}
	w.add(feed.Superseded)
	w.add(feed.Held)
	for range feed.Lost {
		x.count(metric.Malformed)
	}
	t.Applied += feed.Superseded.Samples
	x.endBatch(&t, a)
	return t, w
}

// enterFault counts what could not be read. A series that cannot be taken counts for each of its samples; parts of one whole, as what
// they would have been.
func enterFault(x *exchange, t *tally, what *remotewrite.Fault) {
	if len(t.Errors) < maxErrors {
		x.enter(t, refused(what.Reason, "%s", what.Error()), oneBody{})
	} else { // nobody will read why
		x.enter(t, &fault{counted: what.Reason}, oneBody{})
	}
}

// sayWritten sets the headers that 2.0 asks for. Exemplars are not kept.
func sayWritten(x *exchange, w written) {
	header := &x.http.Response.Header
	header.Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(w.Samples))
	header.Set("X-Prometheus-Remote-Write-Histograms-Written", strconv.Itoa(w.Histograms))
	header.Set("X-Prometheus-Remote-Write-Exemplars-Written", "0")
}

// conclude answers. A limit is no reason to come again: it is the same in a minute, and a sender that tries until it is
// let in holds up all that comes behind.
func conclude(x *exchange, t *tally, sync bool) {
	status := fasthttp.StatusNoContent
	f := x.denial(t)
	if t.early > 0 {
		f = notYet("") // whatever else is in it: sent again, the rest counts once
	}
	switch {
	case f != nil:
		x.failHeaders(f)
		status = f.status
	case t.Refused > 0:
		status = fasthttp.StatusBadRequest
	}
	x.replyTally(status, t, sync)
	if x.http.Response.StatusCode() == fasthttp.StatusNoContent {
		x.http.Response.ResetBody()
		x.http.Response.Header.Del(fasthttp.HeaderContentType)
	}
}
