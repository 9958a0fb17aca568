package pushgateway

import (
	"bytes"
	"context"
	"mime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
)

// Headers for what a Pushgateway's client cannot express otherwise.
const (
	ttlHeader  = "Sluice-TTL"  // the lifetime of the group: 1h, or forever
	syncHeader = "Sluice-Sync" // true: the answer waits for the disk; all: for every replica too
	// unservedHeader of an answer names the metrics that are exposed but not served to autoscalers.
	unservedHeader = "Sluice-Unserved"
)

// groupPush is a push or a deletion of a group whose owner is known.
type groupPush struct {
	key   group.Key
	about metric.Object
	ttl   time.Duration // 0: forever
	sync  httpserver.Sync
}

// Config holds the settings of the protocol.
type Config struct {
	// TTL is the lifetime of a group after a push that names none. 0: forever.
	TTL time.Duration
	// PendingTimeout bounds how long a push waits until its sender is known.
	PendingTimeout time.Duration
	// AdminWipe serves PUT /api/v1/admin/wipe.
	AdminWipe bool
	// Build describes the build, for GET /api/v1/status.
	Build map[string]string
	// Policies restrict who may read series of external metrics, beyond the rights. Nil: nothing more.
	Policies policy.Checker
	// Disk keeps the groups. Nil: none does.
	Disk Disk
}

// Disk keeps what is pushed.
type Disk interface {
	// Persist returns once neither a kill nor a power cut takes back what was pushed before the call.
	Persist(ctx context.Context) error
	// Persisting returns why Persist would fail, as far as known.
	Persisting() error
}

// A Handler serves the paths of a Pushgateway.
type Handler struct {
	groups  *group.Groups
	Waiting *connlimit.Slots // pushes that wait for their sender
	pages   *connlimit.Pages // of groups
	config  Config
	limits  httpserver.Config
	reading exposition.Options
	readers sync.Pool // of *bodyReaders
	began   time.Time
}

// bodyReaders are nil until the first body of their format.
type bodyReaders struct {
	text     *exposition.TextReader
	protobuf *exposition.ProtobufReader
}

// New makes the handler.
func New(groups *group.Groups, config Config, limits httpserver.Config) *Handler {
	h := &Handler{groups: groups, config: config, limits: limits, began: time.Now(),
		Waiting: connlimit.NewSlots(maxWaiting, maxWaitingEach), pages: connlimit.NewPages(pagesAtOnce, pagesEach),
		reading: exposition.DefaultOptions()}
	h.reading.MaxLabels, h.reading.MaxLine = limits.MaxLabels, limits.MaxLineBytes
	h.readers.New = func() any { return new(bodyReaders) }
	return h
}

func healthy(x *httpserver.Request) {
	x.HTTP.SetContentType("text/plain; charset=utf-8")
	x.HTTP.SetBodyString("OK\n")
}

func (h *Handler) replaceGroup(x *httpserver.Request) { h.pushGroup(x, true) }
func (h *Handler) mergeGroup(x *httpserver.Request)   { h.pushGroup(x, false) }

// pushGroup answers a PUT or a POST of a group.
func (h *Handler) pushGroup(x *httpserver.Request, replace bool) {
	to, f := h.groupPush(x, httpserver.ParamTTL|httpserver.ParamSync)
	if f == nil {
		f = h.groupOf(x, &to, metric.Create) // before the body is in memory, because this may wait
	}
	var body []byte
	if f == nil {
		body, f = x.ReadBody()
	}
	if f != nil {
		x.FailPush(f)
		return
	}
	end, f := x.BeginHeavy(h.mostMemory(body, to.key.Labels.Len()))
	if f != nil {
		x.FailPush(f)
		return
	}
	readers := h.readers.Get().(*bodyReaders)
	done := sync.OnceFunc(func() {
		if !x.LargeBody() { // a reader keeps memory in proportion to its last body
			h.readers.Put(readers)
		}
		end()
	})
	defer done()
	families, understood, f := h.readFamilies(x, readers, body)
	if f != nil {
		if understood {
			h.groups.RecordFailure(to.key, to.about, to.ttl, time.Now())
		}
		x.FailPush(f)
		return
	}
	h.applyGroup(x, &to, families, replace, done)
}

// mostMemory is how much a push may take for some time, beside its body: the grouping labels stand beside those of each
// metric, so a body of 64 KiB may take 25 MiB.
func (h *Handler) mostMemory(body []byte, grouping int) int {
	const bytesOfALine, bytesOfAMetric, bytesOfALabel = 4, 128, 96 // a line, or a message, has four at least
	return min(len(body)/bytesOfALine, h.reading.MaxMetrics) * (bytesOfAMetric + bytesOfALabel*(grouping+1))
}

// applyGroup applies a push, calls applied, after which the families are no longer read, and answers.
func (h *Handler) applyGroup(x *httpserver.Request, to *groupPush, families []exposition.Family, replace bool, applied func()) {
	a := x.TakeApplier()
	outcome, rejection := h.groups.Push(&group.Push{
		Key: to.key, Object: to.about, Families: families, Replace: replace, TTL: to.ttl,
		Now: time.Now(), Sender: x.Sender(), Applier: a,
	})
	x.GiveApplier(a)
	if rejection != nil {
		h.failGroup(x, rejection, families)
		return
	}
	applied()
	answer := httpserver.PushAnswer{Applied: outcome.Applied}
	x.CountBatch(outcome.Applied)
	for reason, n := range outcome.Rejected {
		answer.Rejected += n
		reason := metric.Reason(reason)
		x.CountRejected(&httpserver.Fault{Counted: reason, Message: unservedText(outcome.Unserved)}, nameOf(outcome.Unserved, reason), n)
	}
	if len(outcome.Unserved) > 0 {
		x.HTTP.Response.Header.Set(unservedHeader, unservedText(outcome.Unserved))
	}
	if to.sync != httpserver.NoSync {
		f := x.Sync(to.sync)
		answer.Replica = x.Replica()
		if f != nil {
			answer.Error = f.Answer()
			x.Reply(f.Status, answer)
			return
		}
	}
	if answer.Rejected == 0 {
		x.ReplyApplied(answer.Applied)
		return
	}
	x.Reply(fasthttp.StatusOK, answer)
}

// failGroup answers a push that was rejected whole.
func (h *Handler) failGroup(x *httpserver.Request, r *group.Rejection, families []exposition.Family) {
	f := httpserver.Rejected(r.Reason, "%s", r.Message)
	switch {
	case r.Sample != nil:
		f = x.Rejection(r.Reason, r.Sample)
	case r.Reason == metric.KindConflict: // within the group, so the mistake is the client's
		f.Status = fasthttp.StatusBadRequest
	}
	n := 0
	for i := range families {
		n += len(families[i].Metrics)
	}
	x.CountRejected(f, "", n)
	x.FailHeaders(f)
	x.Reply(f.Status, httpserver.PushAnswer{Error: f.Answer(), Rejected: n})
}

// nameOf returns the first metric that was rejected for a reason.
func nameOf(all []group.Unserved, reason metric.Reason) string {
	for _, unserved := range all {
		if unserved.Reason == reason {
			return unserved.Name
		}
	}
	return ""
}

// maxUnservedText bounds a header.
const maxUnservedText = 400

// unservedText returns "name=reason, name=reason". It quotes a name that is no Prometheus name.
func unservedText(all []group.Unserved) string {
	var b strings.Builder
	for i, u := range all {
		name := u.Name
		if !isMetricName(name) {
			name = strconv.QuoteToASCII(name)
		}
		if b.Len()+len(name) > maxUnservedText {
			b.WriteString(", ...")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name + "=" + u.Reason.String())
	}
	return strings.TrimPrefix(b.String(), ", ")
}

func isMetricName(s string) bool {
	return !strings.HasPrefix(s, ":") && isLabelName("a"+strings.ReplaceAll(s, ":", "_"))
}

// deleteGroup answers a DELETE with 202 whether the group existed or not, as a Pushgateway does.
func (h *Handler) deleteGroup(x *httpserver.Request) {
	to, f := h.groupPush(x, httpserver.ParamSync)
	if f == nil {
		f = h.groupOf(x, &to, metric.Delete)
	}
	if f != nil {
		x.Fail(f)
		return
	}
	answer := struct {
		Error *httpserver.ErrorAnswer `json:"error,omitempty"`
		httpserver.DeleteAnswer
	}{}
	if h.groups.Delete(to.key, to.about) {
		answer.Deleted = 1
	}
	status := fasthttp.StatusAccepted
	if to.sync != httpserver.NoSync {
		f := x.Sync(to.sync)
		answer.Replica = x.Replica()
		if f != nil {
			status, answer.Error = f.Status, f.Answer()
		}
	}
	x.Reply(status, answer)
}

// groupPush reads the query and the headers.
func (h *Handler) groupPush(x *httpserver.Request, may httpserver.ParamSet) (to groupPush, f *httpserver.Fault) {
	p, f := x.ParseParams(x.HTTP.URI().QueryString(), may)
	if f != nil {
		return to, f
	}
	header := &x.HTTP.Request.Header
	if text := header.Peek(ttlHeader); len(text) > 0 && may&httpserver.ParamTTL != 0 {
		if p.TTL, f = httpserver.ParseTTL(string(text)); f != nil {
			return to, f
		}
	}
	if text := header.Peek(syncHeader); len(text) > 0 {
		sync, ok := httpserver.ParseSync(string(text))
		if !ok {
			return to, httpserver.BadRequest("%s is %q; must be true, all or false", syncHeader, httpserver.Clip(text))
		}
		p.Sync = max(p.Sync, sync)
	}
	if f := x.CheckSync(p.Sync); f != nil {
		return to, f
	}
	switch p.TTL {
	case 0:
		p.TTL = h.config.TTL
	case metric.Forever:
		p.TTL = 0
	}
	return groupPush{ttl: p.TTL, sync: p.Sync}, nil
}

// readFamilies reads a body: delimited protobuf if Content-Type says so, otherwise text, as a
// Pushgateway does. The families borrow from the readers. For a rejected body, understood reports
// whether the push counts as a failure of its group.
func (h *Handler) readFamilies(x *httpserver.Request, readers *bodyReaders,
	body []byte) (families []exposition.Family, understood bool, f *httpserver.Fault) {
	isProtobuf, f := isProtobuf(x.HTTP.Request.Header.ContentType())
	if f != nil {
		return nil, false, f
	}
	var e exposition.Fault
	if isProtobuf {
		if readers.protobuf == nil {
			readers.protobuf = exposition.NewProtobufReader(h.reading)
		}
		families, e = readers.protobuf.Read(body)
	} else {
		if readers.text == nil {
			readers.text = exposition.NewTextReader(h.reading)
		}
		families, e = readers.text.Read(body)
	}
	if e.Reason == metric.Applied {
		return families, false, nil
	}
	f = httpserver.Rejected(e.Reason, "%s", e.Error())
	f.Status, f.Line = fasthttp.StatusBadRequest, e.Line
	if e.Column > 0 {
		f.At(e.Column - 1)
	}
	if e.Line > 0 {
		f.About(lineOf(body, e.Line, f.Offset))
	}
	if e.Reason == metric.OverLimit {
		f.Status = fasthttp.StatusRequestEntityTooLarge
	}
	return nil, e.Understood(), f
}

// lineOf is a line of a body, from 1, and once more its metric's name with the text at the fault: between a word such as
// "token" and a secret may be a value.
func lineOf(body []byte, n, at int) []byte {
	for range n - 1 {
		_, body, _ = bytes.Cut(body, []byte{'\n'})
	}
	line, _, _ := bytes.Cut(body, []byte{'\n'})
	name := line[:max(bytes.IndexAny(line, " \t{"), 0)]
	return slices.Concat(line, []byte{'|'}, name, []byte{'='}, line[min(at, len(line)):])
}

var protobufType = []byte("application/vnd.google.protobuf")

func isProtobuf(contentType []byte) (bool, *httpserver.Fault) {
	if len(contentType) < len(protobufType) || !bytes.EqualFold(contentType[:len(protobufType)], protobufType) {
		return false, nil
	}
	media, params, err := mime.ParseMediaType(string(contentType))
	switch {
	case err == nil && media != string(protobufType):
		return false, nil
	case err == nil && params["encoding"] == "delimited" && params["proto"] == "io.prometheus.client.MetricFamily":
		return true, nil
	}
	f := httpserver.BadRequest("Content-Type %q is not supported; must be %s; proto=io.prometheus.client.MetricFamily; encoding=delimited", httpserver.Clip(contentType), protobufType)
	f.Status, f.Reason = fasthttp.StatusUnsupportedMediaType, "content_type"
	return false, f
}
