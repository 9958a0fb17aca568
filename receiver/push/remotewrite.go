package push

import (
	"mime"
	"strconv"
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

// writeRemote answers POST /api/v1/write, of Prometheus and of all that writes as it does: 204 where all was taken; 400 where
// some of it never can be, which says the first reason, while the rest stays written; 503 where to send it again
// helps. Sent again, nothing counts twice: totals and values are what they are.
func (x *exchange) writeRemote() {
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
	if x.remote == nil {
		x.remote = remotewrite.NewConverter(x.server.cfg.remoteWriting())
	}
	feed := x.remote
	defer feed.Close()
	feed.Remember(x.server.remembered, x.senderName())
	if fault := feed.Reset(body, version, time.Now()); fault.Reason != metric.Applied {
		x.sayWritten(written{})
		f := refused(fault.Reason, "%s", fault.Error())
		f.status = fasthttp.StatusBadRequest
		x.failPush(f)
		return
	}
	t, w := x.applyFeed(feed)
	x.sayWritten(w)
	x.concludeRemote(&t, p.sync)
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

// senderName tells senders of remote write apart: by account, else by address.
func (x *exchange) senderName() string {
	if account := x.caller.account; account != nil {
		return "account " + account.User
	}
	return x.conn().remote.String()
}

// otherKind is a source whose samples may be of another kind than was guessed.
type otherKind interface{ OtherKind() bool }

// remoteSource locates faults of a remote write, and turns its samples.
type remoteSource struct {
	oneBody
	*remotewrite.Converter
}

// oneBody is what a fault in a body without lines is located by.
type oneBody struct{}

func (oneBody) next() (*metric.Sample, *fault, bool) { return nil, nil, false }
func (oneBody) lineNumber() int                      { return 0 }

// applyFeed applies what a request holds. What the table is given enters the ledger once; what stands for more of the
// request, as a classic histogram does, is counted so in written.
func (x *exchange) applyFeed(feed *remotewrite.Converter) (t tally, w written) {
	x.renew()
	near := x.http.ConnID()
	a := x.server.appliers.take(near)
	t.sender = x.sender()
	for n := 1; feed.Next(); n++ {
		if fault := &feed.Fault; fault.Reason != metric.Applied {
			for range feed.Entries {
				x.enterFault(&t, fault)
			}
			continue
		}
		before := t.Refused
		a = x.applyLine(&t, a, &feed.Sample, remoteSource{Converter: feed})
		if t.Refused == before {
			w.add(feed.Of)
		}
		if n%batchLines == 0 {
			a.Quiesce()
		}
	}
	x.server.appliers.give(near, a)
	w.add(feed.Superseded)
	w.add(feed.Held)
	for range feed.Lost {
		x.server.account.Count(metric.Malformed)
	}
	t.Applied += feed.Superseded.Samples
	x.server.account.CountApplied(uint64(t.Applied))
	return t, w
}

// enterFault counts what could not be read. A series that cannot be taken counts for each of its samples; parts of one whole, as what
// they would have been.
func (x *exchange) enterFault(t *tally, what *remotewrite.Fault) {
	if len(t.Errors) < maxErrors {
		x.enter(t, refused(what.Reason, "%s", what.Error()), oneBody{})
	} else { // nobody will read why
		x.enter(t, &fault{counted: what.Reason}, oneBody{})
	}
}

// sayWritten sets the headers that 2.0 asks for. Exemplars are not kept.
func (x *exchange) sayWritten(w written) {
	header := &x.http.Response.Header
	header.Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(w.Samples))
	header.Set("X-Prometheus-Remote-Write-Histograms-Written", strconv.Itoa(w.Histograms))
	header.Set("X-Prometheus-Remote-Write-Exemplars-Written", "0")
}

// concludeRemote answers. A limit is no reason to come again: it is the same in a minute, and a sender that tries until it is
// let in holds up all that comes behind.
func (x *exchange) concludeRemote(t *tally, sync bool) {
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
