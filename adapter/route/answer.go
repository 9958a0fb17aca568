package route

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/apis/external_metrics"
	emv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

// result is the outcome of a request to a provider, a label of metrics.
type result string

const (
	answered    result = "ok"
	notFound    result = "not_found"   // the provider doesn't have the metric
	rejected    result = "rejected"    // the provider rejects the question
	denied      result = "denied"      // the provider doesn't let Sluice's account ask
	failed      result = "failed"      // the provider says that it failed
	unreachable result = "unreachable" // no connection, no trust, or no answer in time
	invalid     result = "invalid"     // an answer that is none
	busy        result = "busy"        // too many requests in flight, or too large answers
	loop        result = "loop"        // the provider is a Sluice that routes
	canceled    result = "canceled"    // the caller went away
)

const loopText = "is a Sluice that routes metrics itself, this one or another: requests would go round. " +
	"A provider's url must be that of the other product"

// fault is a request that brought no values.
type fault struct {
	result result
	why    string // a sentence about the provider, without its name, for all who read its metrics
	quote  string // of the answer, for the caller and the log alone: it may be about a namespace that others may not read
	code   int    // status for the caller; 0: by the result
	since  time.Time
	cause  error // of reading the body
}

// whole reports whether the provider as such is at fault, rather than one question or the caller.
func (f *fault) whole() bool {
	switch f.result {
	case unreachable, invalid, denied, loop:
		return true
	}
	return false
}

func newFault(r result, format string, args ...any) *fault {
	return &fault{result: r, why: fmt.Sprintf(format, args...), since: time.Now()}
}

// quoting adds a part of the answer.
func (f *fault) quoting(text string) *fault {
	f.quote = text
	return f
}

// text is the sentence with the quotation.
func (f *fault) text() string {
	if f.quote == "" {
		return f.why
	}
	return f.why + ": " + f.quote
}

// status is the answer to the caller: 503 where the provider gave no answer, 502 where it gave a wrong one.
func (f *fault) status(provider, name string) error {
	code := f.code
	switch {
	case code != 0:
	case f.result == invalid || f.result == failed:
		code = http.StatusBadGateway
	default:
		code = http.StatusServiceUnavailable
	}
	reason, known := reasons[code]
	if !known {
		reason = metav1.StatusReasonServiceUnavailable
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: fmt.Sprintf("the external metric %q is routed to the provider %s, which %s",
			metric.Truncate(name, metric.MaxQuoted), provider, f.text()),
		Details: &metav1.StatusDetails{Group: external_metrics.GroupName, Kind: metric.Truncate(name, metric.MaxQuoted)},
	}}
}

// reasons are those of the statuses that callers get from a provider.
var reasons = map[int]metav1.StatusReason{
	http.StatusNotFound:        metav1.StatusReasonNotFound,
	http.StatusBadRequest:      metav1.StatusReasonBadRequest,
	http.StatusForbidden:       metav1.StatusReasonForbidden,
	http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
}

const (
	// maxAnswer bounds the size of an answer, maxMessage that of an error.
	maxAnswer  = 10 << 20
	maxMessage = 64 << 10
	// maxQuoted bounds what a message repeats of an answer.
	maxQuoted = 300
)

// readBody reads the body of an answer with values, and the fault of any other.
func (s *Spec) readBody(resp *http.Response, held *held) ([]byte, *fault) {
	limit := int64(maxAnswer)
	if resp.StatusCode != http.StatusOK {
		limit = maxMessage
	}
	body, err := io.ReadAll(io.LimitReader(heldBody{resp.Body, held}, limit+1))
	size := sizeOf(body)
	if err == nil && size <= maxAnswer && !held.take(decodedFactor*(size-len(body))) {
		err = errNoRoom
	}
	switch {
	case errors.Is(err, errNoRoom):
		return nil, newFault(busy, "answers with more than there is room for: answers that are read or written take %d MB, of which one reader "+
			"has at most three times what is left; retry later", held.room.Held()>>20)
	case err != nil:
		return nil, &fault{cause: err}
	case resp.StatusCode != http.StatusOK:
		return nil, s.refusal(resp, body)
	case size > maxAnswer:
		return nil, newFault(invalid, "answers with more than %d MB, of which an object takes %d bytes at least", maxAnswer>>20, leastObject)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "application/json" {
		return nil, newFault(invalid, "answers with a content type that is not application/json").
			quoting(fmt.Sprintf("%q: %s", metric.Truncate(resp.Header.Get("Content-Type"), maxQuoted), quoted(body)))
	}
	return body, nil
}

// refusal is the fault of an answer with another status than 200.
func (s *Spec) refusal(resp *http.Response, body []byte) *fault {
	code, message := resp.StatusCode, quoted(body)
	var status metav1.Status
	isStatus := json.Unmarshal(body, &status) == nil && status.Kind == "Status"
	if isStatus {
		message = quoted([]byte(status.Message))
	}
	passed := func(r result, says string) *fault {
		f := newFault(r, "%s", says).quoting(message)
		f.code = code
		return f
	}
	switch {
	case code == http.StatusLoopDetected:
		return newFault(loop, "%s", loopText)
	case code >= 300 && code < 400:
		return newFault(invalid, "answers with a redirect (%d), which is not followed: its url must be that of the API server itself", code).
			quoting(fmt.Sprintf("%q", metric.Truncate(resp.Header.Get("Location"), maxQuoted)))
	case code == http.StatusUnauthorized:
		return newFault(denied, "does not accept the token of Sluice's service account").quoting(message)
	case code == http.StatusForbidden && s.Impersonate:
		return passed(rejected, "denies it")
	case code == http.StatusForbidden:
		return newFault(denied, "does not let Sluice's service account read it, which needs get and list in %s",
			external_metrics.GroupName).quoting(message)
	case code == http.StatusNotFound:
		return passed(notFound, "does not have it")
	case code == http.StatusBadRequest, code == http.StatusTooManyRequests:
		return passed(rejected, "rejects the question")
	case !isStatus:
		return newFault(invalid, "answers with status %d", code).quoting(message)
	}
	return newFault(failed, "fails (%d)", code).quoting(message)
}

// quoted is the beginning of an answer, for messages.
func quoted(body []byte) string {
	text := string(body[:min(len(body), maxQuoted)])
	if !utf8.ValidString(text) {
		return fmt.Sprintf("%d bytes that are no text", len(body))
	}
	return text
}

// readValues reads a list of values.
func readValues(body []byte) (*external_metrics.ExternalMetricValueList, *fault) {
	var list emv1beta1.ExternalMetricValueList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, newFault(invalid, "answers with what is no list of values").quoting(fmt.Sprintf("%v: %s", err, quoted(body)))
	}
	if list.Kind != "ExternalMetricValueList" || list.APIVersion != emv1beta1.SchemeGroupVersion.String() {
		return nil, newFault(invalid, "answers with a kind that is not ExternalMetricValueList of %s", emv1beta1.SchemeGroupVersion).
			quoting(fmt.Sprintf("kind %q of %q", metric.Truncate(list.Kind, maxQuoted), metric.Truncate(list.APIVersion, maxQuoted)))
	}
	values := &external_metrics.ExternalMetricValueList{}
	if err := emv1beta1.Convert_v1beta1_ExternalMetricValueList_To_external_metrics_ExternalMetricValueList(&list, values, nil); err != nil {
		return nil, newFault(invalid, "answers with what is no list of values").quoting(err.Error())
	}
	return values, nil
}

// readNames reads the names of a discovery document.
func readNames(body []byte, limit int) ([]string, *fault) {
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil || list.Kind != "APIResourceList" {
		return nil, newFault(invalid, "answers discovery with what is no APIResourceList").quoting(quoted(body))
	}
	names := make([]string, 0, min(len(list.APIResources), limit))
	for _, resource := range list.APIResources[:min(len(list.APIResources), limit)] {
		names = append(names, resource.Name)
	}
	return names, nil
}
