package push

import (
	"mime"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// An otlpHandler serves OTLP/HTTP.
type otlpHandler struct {
	readers sync.Pool // of *otlp.Reader
}

// newOTLP makes the handler. attributes are the attributes of a resource that become labels, beside those that name
// the object.
func newOTLP(limits ServerConfig, attributes []string) *otlpHandler {
	o := otlp.Options{MaxLabels: limits.MaxLabels, MaxLabelBytes: limits.MaxLabelBytes, Attributes: attributes}
	return &otlpHandler{readers: sync.Pool{New: func() any { return otlp.NewReader(o) }}}
}

// routes returns the handler's routes.
func (h *otlpHandler) Routes() []*Route {
	return []*Route{{
		Paths: []string{"/v1/metrics"}, Index: []string{"/v1/metrics"},
		Post: h.push, Fail: failWhole,
	}}
}

// failWhole answers a request that was rejected before its body was read.
func failWhole(x *exchange, f *fault) {
	encoding, _ := otlpEncoding(x.http.Request.Header.ContentType())
	failOTLP(x, f, encoding)
}

// push answers POST /v1/metrics, an export of OpenTelemetry's.
//
// Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp
func (h *otlpHandler) push(x *exchange) {
	p, body, f := x.readLines(allowSync)
	encoding, unknown := otlpEncoding(x.http.Request.Header.ContentType())
	if f == nil {
		f = unknown
	}
	if f != nil {
		failOTLP(x, f, encoding)
		return
	}
	weight, all, f := decodeOTLP(x, body, encoding)
	if f != nil {
		failOTLP(x, f, encoding)
		return
	}
	reader := h.readers.Get().(*otlp.Reader)
	reader.Reset(all, isNoPod(x.sender()))
	t := x.applyAll(&otlpPoints{Reader: reader, now: time.Now()})
	reader.Reset(pmetric.NewMetrics(), false) // an idle reader keeps no body
	if !x.largeBody() {
		h.readers.Put(reader)
	}
	x.unreserve(weight)
	concludeOTLP(x, &t, p.sync, encoding)
}

// isNoPod reports whether a sender is none and does not become one: an address that is not known yet may.
func isNoPod(s *metric.Sender) bool { return s == nil || s.Known && s.Pod == nil }

// otlpPoints walks through the data points of an export.
type otlpPoints struct {
	*otlp.Reader
	now    time.Time
	faults int
}

// otlpBacklog is how old a total or a histogram is that counts at its time, not when it comes: its client could not send
// it before. A younger one is on its way from a client that exports at an interval, by a clock of its own.
const otlpBacklog = time.Minute

func (p *otlpPoints) nextSample() (*metric.Sample, *fault, bool) {
	p.Quiet = p.faults >= maxErrors
	if !p.Next() {
		return nil, nil, false
	}
	if r := p.Fault.Reason; r != metric.Applied {
		p.faults++
		return nil, &fault{status: statusOf(r), counted: r, message: p.Fault.Message}, true
	}
	s := &p.Sample
	s.Late = s.Op.Pushed() && s.Timestamp > 0 && p.now.Sub(time.Unix(s.Timestamp, 0)) > otlpBacklog
	return s, nil, true
}

func (*otlpPoints) lineNumber() int { return 0 }

// otlpEncoding is the encoding that a Content-Type names. Where it names none that is known, the answer is in JSON, which
// people read.
func otlpEncoding(contentType []byte) (otlp.Encoding, *fault) {
	media, _, err := mime.ParseMediaType(string(contentType))
	for _, e := range []otlp.Encoding{otlp.Protobuf, otlp.JSON} {
		if err == nil && media == e.ContentType() {
			return e, nil
		}
	}
	f := badRequest("Content-Type %q is not taken: say %s or %s", clip(contentType), otlp.Protobuf.ContentType(), otlp.JSON.ContentType())
	f.status, f.reason = fasthttp.StatusUnsupportedMediaType, "content_type"
	return otlp.JSON, f
}

// decodeOTLP decodes a body, once its weight is taken from the budget for bodies: it takes more memory decoded than on the
// wire, and with bad intent fifty times as much. Where there is no fault, the caller gives the weight back.
func decodeOTLP(x *exchange, body []byte, e otlp.Encoding) (weight int64, all pmetric.Metrics, f *fault) {
	weight, err := otlp.Weigh(body, e)
	if err != nil {
		return 0, all, badRequest("%v", err)
	}
	if most := x.most(); weight > most { // alone it would not fit either
		f := refused(metric.TooLong, "the body would take %d bytes of memory, but one may take %d: send it in parts", weight, most)
		f.status = fasthttp.StatusRequestEntityTooLarge
		return 0, all, f
	}
	if !x.reserve(weight) {
		f := x.busy()
		f.close = false // the body was read to its end
		return 0, all, f
	}
	all, err = otlp.Decode(body, e)
	if err != nil {
		x.unreserve(weight)
		return 0, all, badRequest("the body is no ExportMetricsServiceRequest in %s: %q", e.ContentType(), clip([]byte(err.Error())))
	}
	return weight, all, nil
}
