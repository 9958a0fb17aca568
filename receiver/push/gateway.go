package push

import (
	"bytes"
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/valyala/fasthttp"
)

// Headers by which a push says what a Pushgateway's client cannot.
const (
	ttlHeader  = "Sluice-TTL"  // how long the group lives: 1h, or forever
	syncHeader = "Sluice-Sync" // true: the answer waits for the disk
	// unservedHeader of an answer names the metrics that are kept for exposition, but not served.
	unservedHeader = "Sluice-Unserved"
)

// groupPush is a push or a deletion of a group, once it is known whose the group is.
type groupPush struct {
	key   group.Key
	about metric.Object
	ttl   time.Duration // 0: for ever
	sync  bool
}

// pushGroup answers a PUT or a POST of a group.
func (x *exchange) pushGroup(r *route, replace bool) {
	to, f := x.groupPush(r, allowTTL|allowSync)
	if f == nil {
		f = x.groupOf(&to, r, metric.Create) // before the body is in memory: this may wait
	}
	var body []byte
	if f == nil {
		body, f = x.readBody()
	}
	if f != nil {
		x.failPush(f)
		return
	}
	families, understood, f := x.readFamilies(body)
	if f != nil {
		if understood {
			x.server.groups.RecordFailure(to.key, to.about, to.ttl, time.Now())
		}
		x.failPush(f)
		return
	}
	x.applyGroup(&to, families, replace)
}

func (x *exchange) applyGroup(to *groupPush, families []exposition.Family, replace bool) {
	near := x.http.ConnID()
	a := x.server.appliers.take(near)
	outcome, refusal := x.server.groups.Push(&group.Push{
		Key: to.key, Object: to.about, Families: families, Replace: replace, TTL: to.ttl,
		Now: time.Now(), Sender: x.sender(), Applier: a,
	})
	x.server.appliers.give(near, a)
	if refusal != nil {
		x.failGroup(refusal, families)
		return
	}
	answer := pushAnswer{Applied: outcome.Applied}
	x.server.account.CountApplied(uint64(outcome.Applied))
	for reason, n := range outcome.Rejected {
		answer.Refused += n
		for range n {
			x.server.account.Count(metric.Reason(reason))
		}
	}
	if len(outcome.Unserved) > 0 {
		x.http.Response.Header.Set(unservedHeader, unservedText(outcome.Unserved))
	}
	if to.sync {
		if f := x.server.sync(); f != nil {
			answer.Error = f.answer()
			x.reply(f.status, answer)
			return
		}
	}
	if answer.Refused == 0 {
		x.replyApplied(answer.Applied)
		return
	}
	x.reply(fasthttp.StatusOK, answer)
}

// failGroup answers a push that was refused whole.
func (x *exchange) failGroup(r *group.Rejection, families []exposition.Family) {
	f := refused(r.Reason, "%s", r.Message)
	switch {
	case r.Sample != nil:
		f = x.refusal(r.Reason, r.Sample)
	case r.Reason == metric.KindConflict: // within the group, which the client alone writes to
		f.status = fasthttp.StatusBadRequest
	}
	n := 0
	for i := range families {
		for range families[i].Metrics {
			x.server.account.Count(f.counted)
			n++
		}
	}
	x.failHeaders(f)
	x.reply(f.status, pushAnswer{Error: f.answer(), Refused: n})
}

// maxUnservedText bounds a header.
const maxUnservedText = 400

// unservedText is "name=reason, name=reason". Names are quoted where they hold more than a Prometheus name does.
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

// deleteGroup answers a DELETE: 202 whether the group was there or not, as of a Pushgateway.
func (x *exchange) deleteGroup(r *route) {
	to, f := x.groupPush(r, allowSync)
	if f == nil {
		f = x.groupOf(&to, r, metric.Delete)
	}
	if f != nil {
		x.fail(f)
		return
	}
	answer := struct {
		Error *errorAnswer `json:"error,omitempty"`
		deleteAnswer
	}{}
	if x.server.groups.Delete(to.key) {
		answer.Deleted = 1
	}
	status := fasthttp.StatusAccepted
	if to.sync {
		if f := x.server.sync(); f != nil {
			status, answer.Error = f.status, f.answer()
		}
	}
	x.reply(status, answer)
}

// groupPush reads what query and headers say.
func (x *exchange) groupPush(r *route, may allowed) (to groupPush, f *fault) {
	p, f := x.parseParams(x.http.URI().QueryString(), may)
	if f != nil {
		return to, f
	}
	header := &x.http.Request.Header
	if text := header.Peek(ttlHeader); len(text) > 0 && may&allowTTL != 0 {
		if p.ttl, f = parseTTL(string(text)); f != nil {
			return to, f
		}
	}
	switch text := header.Peek(syncHeader); {
	case len(text) == 0, string(text) == "false":
	case string(text) == "true":
		p.sync = true
	default:
		return to, badRequest("%s is %q, but must be true or false", syncHeader, clip(text))
	}
	if p.sync && x.server.syncer == nil {
		return to, noStore()
	}
	switch p.ttl {
	case 0:
		p.ttl = x.server.cfg.GroupTTL
	case metric.Forever:
		p.ttl = 0
	}
	return groupPush{ttl: p.ttl, sync: p.sync}, nil
}

// readFamilies reads a body: delimited protobuf where Content-Type says so, else text, as a Pushgateway does. What it
// returns borrows from the exchange. Of a body that is refused, understood says whether its group failed by it.
func (x *exchange) readFamilies(body []byte) (families []exposition.Family, understood bool, f *fault) {
	isProtobuf, f := isProtobuf(x.http.Request.Header.ContentType())
	if f != nil {
		return nil, false, f
	}
	var e exposition.Fault
	if isProtobuf {
		if x.protobuf == nil {
			x.protobuf = exposition.NewProtobufReader(x.server.reading)
		}
		families, e = x.protobuf.Read(body)
	} else {
		if x.exposition == nil {
			x.exposition = exposition.NewTextReader(x.server.reading)
		}
		families, e = x.exposition.Read(body)
	}
	if e.Reason == metric.Applied {
		return families, false, nil
	}
	f = refused(e.Reason, "%s", e.Error())
	f.status, f.line = fasthttp.StatusBadRequest, e.Line
	if e.Column > 0 {
		f.at(e.Column - 1)
	}
	if e.Reason == metric.OverLimit {
		f.status = fasthttp.StatusRequestEntityTooLarge
	}
	return nil, e.Understood(), f
}

var protobufType = []byte("application/vnd.google.protobuf")

func isProtobuf(contentType []byte) (bool, *fault) {
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
	f := badRequest("Content-Type %q is not taken: protobuf is %s; proto=io.prometheus.client.MetricFamily; encoding=delimited", clip(contentType), protobufType)
	f.status, f.reason = fasthttp.StatusUnsupportedMediaType, "content_type"
	return false, f
}
