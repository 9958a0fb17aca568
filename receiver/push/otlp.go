package push

import (
	"mime"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// pushOTLP answers POST /v1/metrics, an export of OpenTelemetry's.
//
// Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp
func (x *exchange) pushOTLP() {
	p, body, f := x.readLines(allowSync)
	encoding, unknown := otlpEncoding(x.http.Request.Header.ContentType())
	if f == nil {
		f = unknown
	}
	if f != nil {
		x.failOTLP(f, encoding)
		return
	}
	weight, all, f := x.decodeOTLP(body, encoding)
	if f != nil {
		x.failOTLP(f, encoding)
		return
	}
	if x.otlp == nil {
		x.otlp = otlp.NewReader(x.server.cfg.otlp())
	}
	x.otlp.Reset(all, isNoPod(x.sender()))
	t := x.applyAll(&otlpPoints{Reader: x.otlp, now: time.Now()})
	x.otlp.Reset(pmetric.NewMetrics(), false) // an idle exchange holds nobody's body
	x.server.budget.held.Add(-weight)
	x.concludeOTLP(&t, p.sync, encoding)
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

func (p *otlpPoints) next() (*metric.Sample, *fault, bool) {
	p.Quiet = p.faults >= maxErrors
	if !p.Next() {
		return nil, nil, false
	}
	if r := p.Fault.Reason; r != metric.Applied {
		p.faults++
		return nil, &fault{status: statusOf(r), counted: r, message: p.Fault.Message}, true
	}
	s := &p.Sample
	s.Late = s.Op.PreAggregated() && s.Timestamp > 0 && p.now.Sub(time.Unix(s.Timestamp, 0)) > otlpBacklog
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
func (x *exchange) decodeOTLP(body []byte, e otlp.Encoding) (weight int64, all pmetric.Metrics, f *fault) {
	weight, err := otlp.DecodedSize(body, e)
	if err != nil {
		return 0, all, badRequest("%v", err)
	}
	if most := x.server.cfg.MaxBufferedBytes - x.wire.charged - x.plain.charged; weight > most { // alone it would not fit either
		f := refused(metric.TooLong, "the body would take %d bytes of memory, but one may take %d: send it in parts", weight, most)
		f.status = fasthttp.StatusRequestEntityTooLarge
		return 0, all, f
	}
	if !x.server.budget.take(weight) {
		f := x.busy()
		f.close = false // the body was read to its end
		return 0, all, f
	}
	all, err = otlp.Decode(body, e)
	if err != nil {
		x.server.budget.held.Add(-weight)
		return 0, all, badRequest("the body is no ExportMetricsServiceRequest in %s: %q", e.ContentType(), clip([]byte(err.Error())))
	}
	return weight, all, nil
}
