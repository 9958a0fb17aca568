package otlphttp

import (
	"mime"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// A Handler serves OTLP/HTTP.
type Handler struct {
	readers sync.Pool // of *otlp.Reader
}

// New makes the handler. attributes are the attributes of a resource that become labels, beside
// those that identify the object.
func New(limits httpserver.Config, attributes []string) *Handler {
	o := otlp.Options{MaxLabels: limits.MaxLabels, MaxLabelBytes: limits.MaxLabelBytes, Attributes: attributes}
	return &Handler{readers: sync.Pool{New: func() any { return otlp.NewReader(o) }}}
}

// Routes returns the route of the protocol.
func (h *Handler) Routes() []*httpserver.Route {
	return []*httpserver.Route{{
		Paths: []string{"/v1/metrics"}, Index: []string{"/v1/metrics"},
		Post: h.push, Fail: failWhole,
		Tag: "protocols", Operations: []httpserver.Operation{{
			Method: "POST", Path: "/v1/metrics", ID: "export",
			Summary:     "Takes OpenTelemetry's metrics (https://opentelemetry.io/docs/specs/otlp/#otlphttp)",
			Description: "200 with a partialSuccess where some data points were rejected: they are not to be sent again. 500: applied, and not confirmed by sync.",
			Params:      "sync encoding", Body: "Export",
			Answers: "200:Exported 400:NotExported 401:NotExportedWithout 403:NotExported 408:NotExported 413:NotExported 415:NotExported 429:ConnectionLimited 500:NotExported 503:NotExported",
		}},
	}}
}

// failWhole answers a request that was rejected before its body was read.
func failWhole(x *httpserver.Request, f *httpserver.Fault) {
	encoding, _ := otlpEncoding(x.HTTP.Request.Header.ContentType())
	failOTLP(x, f, encoding)
}

// push answers POST /v1/metrics, an export of OpenTelemetry.
//
// Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp
func (h *Handler) push(x *httpserver.Request) {
	p, body, f := x.ReadQueryAndBody(httpserver.ParamSync)
	encoding, unknown := otlpEncoding(x.HTTP.Request.Header.ContentType())
	if f == nil {
		f = unknown
	}
	if f != nil {
		failOTLP(x, f, encoding)
		return
	}
	all, release, f := decodeOTLP(x, body, encoding)
	if f != nil {
		failOTLP(x, f, encoding)
		return
	}
	reader := h.readers.Get().(*otlp.Reader)
	reader.Reset(all, isNoPod(x.Sender()))
	t := x.ApplyAll(&otlpPoints{Reader: reader, now: time.Now()})
	reader.Reset(pmetric.NewMetrics(), false) // an idle reader keeps no body
	if !x.LargeBody() {
		h.readers.Put(reader)
	}
	release()
	concludeOTLP(x, &t, p.Sync, encoding)
}

// isNoPod reports whether a sender is not a pod and will not become one. An address that is not
// known yet may.
func isNoPod(s *metric.Sender) bool { return s == nil || s.Known && s.Pod == nil }

// otlpPoints is a Source over the data points of an export.
type otlpPoints struct {
	*otlp.Reader
	now time.Time
}

// otlpBacklog is the age from which a total or a histogram counts at its date, not on arrival:
// its client could not send it before. A younger one is from a client that exports at intervals of
// its clock.
const otlpBacklog = time.Minute

func (p *otlpPoints) NextSample() (*metric.Sample, *httpserver.Fault, bool) {
	if !p.Next() {
		return nil, nil, false
	}
	if r := p.Fault.Reason; r != metric.Applied {
		return nil, httpserver.Unworded(r), true
	}
	s := &p.Sample
	s.Late = s.Op.PreAggregated() && s.Dated > 0 && p.now.Sub(s.Date()) > otlpBacklog
	return s, nil, true
}

func (p *otlpPoints) Words() *httpserver.Fault {
	p.Explain()
	r := p.Fault.Reason
	return &httpserver.Fault{Status: httpserver.StatusOf(r), Counted: r, Message: p.Fault.Message}
}

func (*otlpPoints) LineNumber() int { return 0 }

// otlpEncoding returns the encoding that a Content-Type names. The answer to an unknown one is
// JSON, which people can read.
func otlpEncoding(contentType []byte) (otlp.Encoding, *httpserver.Fault) {
	media, _, err := mime.ParseMediaType(string(contentType))
	for _, e := range []otlp.Encoding{otlp.Protobuf, otlp.JSON} {
		if err == nil && media == e.ContentType() {
			return e, nil
		}
	}
	f := httpserver.BadRequest("Content-Type %q is not supported; must be %s or %s", httpserver.Clip(contentType),
		otlp.Protobuf.ContentType(), otlp.JSON.ContentType())
	f.Status, f.Reason = fasthttp.StatusUnsupportedMediaType, "content_type"
	return otlp.JSON, f
}

// decodeOTLP decodes a body after it took the decoded size from the sender's share of the budget of bodies. Decoded, a
// body takes more memory than on the wire; a malicious one takes fifty times as much. Without a fault, the caller calls
// release.
func decodeOTLP(x *httpserver.Request, body []byte,
	e otlp.Encoding) (all pmetric.Metrics, release func(), f *httpserver.Fault) {
	weight, err := otlp.DecodedSize(body, e)
	if err != nil {
		return all, nil, httpserver.BadRequest("%v", err)
	}
	if limit := x.Most(); weight > limit { // it would not fit alone either
		f := httpserver.Rejected(metric.TooLong,
			"the body would take %d bytes of memory, but one may take %d: send it in parts", weight, limit)
		f.Status = fasthttp.StatusRequestEntityTooLarge
		return all, nil, f
	}
	release, held := x.Hold(weight)
	if !held {
		f := x.Busy()
		f.Close = false // the whole body was read, so the connection can go on
		return all, nil, f
	}
	all, err = otlp.Decode(body, e)
	if err != nil {
		release()
		return all, nil, httpserver.BadRequest("the body is not an ExportMetricsServiceRequest in %s: %q", e.ContentType(),
			httpserver.Clip([]byte(err.Error())))
	}
	return all, release, nil
}
