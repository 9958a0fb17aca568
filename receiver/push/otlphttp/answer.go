package otlphttp

import (
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
	"google.golang.org/protobuf/encoding/protowire"
)

// maxToldOTLP is how many different faults the message of a partial success lists.
const maxToldOTLP = 5

// concludeOTLP answers an export that was read. Samples that are held, or ignored by the server's
// configuration, count as accepted. The protocol forbids sending a part again, so rejected data
// points are reported with status 200. Only if nothing was taken does the status say whether to try
// again.
func concludeOTLP(x *httpserver.Request, t *httpserver.Outcome, sync httpserver.Sync, e otlp.Encoding) {
	if sync != httpserver.NoSync && t.Applied > 0 {
		if f := x.Sync(sync); f != nil {
			f.Status = fasthttp.StatusInternalServerError // a 503 is sent again, and deltas would count twice
			answerOTLP(x, f, e)
			return
		}
	}
	f := x.Denial(t)
	switch {
	case t.Rejected == 0:
		replyOTLP(x, fasthttp.StatusOK, e, nil, struct{}{})
	case f != nil && t.Rejected == t.Samples():
		f.Message = words(t)
		answerOTLP(x, f, e)
	default:
		replyOTLP(x, fasthttp.StatusOK, e, partialSuccess(t.Rejected, words(t)), map[string]any{
			"partialSuccess": map[string]string{"rejectedDataPoints": fmt.Sprint(t.Rejected), "errorMessage": words(t)},
		})
	}
}

// words lists the faults of rejected data points, each once.
func words(t *httpserver.Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d data points were rejected", t.Rejected, t.Samples())
	told := map[string]bool{}
	for i := range t.Errors {
		if m := t.Errors[i].Message; !told[m] && len(told) < maxToldOTLP {
			told[m] = true
			b.WriteString("; " + m)
		}
	}
	return b.String()
}

// failOTLP answers a request that was rejected whole, before a data point was read.
func failOTLP(x *httpserver.Request, f *httpserver.Fault, e otlp.Encoding) {
	if !f.Uncounted {
		x.CountRejected(f, "", 1)
	}
	answerOTLP(x, f, e)
}

// answerOTLP answers with a google.rpc.Status, which is the protocol's form of failures.
func answerOTLP(x *httpserver.Request, f *httpserver.Fault, e otlp.Encoding) {
	x.FailHeaders(f)
	code := rpcCode(f.Status)
	replyOTLP(x, f.Status, e, rpcStatus(code, f.Message), map[string]any{"code": code, "message": f.Message})
}

// replyOTLP answers in the encoding of the request.
func replyOTLP(x *httpserver.Request, status int, e otlp.Encoding, protobuf []byte, json any) {
	if e == otlp.JSON {
		x.Reply(status, json)
		return
	}
	x.HTTP.SetStatusCode(status)
	x.HTTP.SetContentType(e.ContentType())
	x.HTTP.Response.SetBodyRaw(protobuf)
}

// partialSuccess is an ExportMetricsServiceResponse.
//
// Source: opentelemetry/proto/collector/metrics/v1/metrics_service.proto
func partialSuccess(rejected int, message string) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), numberAndText(rejected, message))
}

// rpcStatus is a google.rpc.Status.
//
// Source: https://github.com/googleapis/googleapis/blob/master/google/rpc/status.proto
func rpcStatus(code int, message string) []byte { return numberAndText(code, message) }

// numberAndText is a message of which field 1 is an integer and field 2 a string.
func numberAndText(n int, text string) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(n))
	return protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), strings.ToValidUTF8(text, "?"))
}

// rpcCode returns the google.rpc.Code of an HTTP status.
func rpcCode(status int) int {
	switch status {
	case fasthttp.StatusUnauthorized:
		return 16 // UNAUTHENTICATED
	case fasthttp.StatusForbidden:
		return 7 // PERMISSION_DENIED
	case fasthttp.StatusTooManyRequests:
		return 8 // RESOURCE_EXHAUSTED
	case fasthttp.StatusRequestTimeout:
		return 4 // DEADLINE_EXCEEDED
	case fasthttp.StatusServiceUnavailable:
		return 14 // UNAVAILABLE
	case fasthttp.StatusInternalServerError:
		return 13 // INTERNAL
	}
	return 3 // INVALID_ARGUMENT
}
