package pushgateway

import (
	"bytes"
	"encoding/base64"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// base64Suffix of a label's name means that its value is in base64.
const base64Suffix = "@base64"

// matchGroup reads the path of a group: /metrics/job/{job}{/label/value}, each value also in
// base64.
func (h *Handler) matchGroup(path []byte, p *httpserver.Path) (bool, *httpserver.Fault) {
	rest, ok := bytes.CutPrefix(path, []byte("/metrics/job"))
	if !ok {
		return false, nil
	}
	encoded := bytes.HasPrefix(rest, []byte(base64Suffix))
	if encoded {
		rest = rest[len(base64Suffix):]
	}
	if len(rest) > 0 && rest[0] != '/' {
		return false, nil
	}
	var f *httpserver.Fault
	p.Grouping, f = h.groupingLabels(rest, encoded)
	return true, f
}

// groupingLabels reads the path after "job" or "job@base64". It cuts segments at "/" before it
// decodes percent signs. As in a Pushgateway, the last value of a label counts, but the first one
// of job.
func (h *Handler) groupingLabels(rest []byte, encoded bool) (metric.Labels, *httpserver.Fault) {
	rest = bytes.TrimPrefix(rest, []byte{'/'})
	job, rest, more := bytes.Cut(rest, []byte{'/'})
	value, f := pathValue("job", job, encoded)
	if f != nil {
		return metric.Labels{}, f
	}
	if value == "" {
		return metric.Labels{}, httpserver.BadRequest("the job's name is missing: /metrics/job/{job}")
	}
	var room [8]metric.Label
	labels := append(room[:0], metric.Label{Key: "job", Value: value})
	if f := h.checkGrouping(labels, labels[0]); f != nil {
		return metric.Labels{}, f
	}
	more = more && len(rest) > 0 // a "/" after the job is ignored
	for more {
		var name, text []byte
		var paired bool
		if name, rest, paired = bytes.Cut(rest, []byte{'/'}); !paired {
			return metric.Labels{}, httpserver.BadRequest("the label %q has no value: behind the job come pairs, /{label}/{value}", httpserver.Clip(name))
		}
		text, rest, more = bytes.Cut(rest, []byte{'/'})
		l, f := pathLabel(name, text)
		if f == nil {
			f = h.checkGrouping(labels, l)
		}
		if f != nil {
			return metric.Labels{}, f
		}
		labels = setLabel(labels, l)
	}
	return metric.NewLabels(labels), nil
}

func setLabel(labels []metric.Label, l metric.Label) []metric.Label {
	if l.Key == labels[0].Key {
		return labels
	}
	for i := range labels {
		if labels[i].Key == l.Key {
			labels[i].Value = l.Value
			return labels
		}
	}
	return append(labels, l)
}

func pathLabel(name, value []byte) (metric.Label, *httpserver.Fault) {
	decoded, bad := pathText(name)
	if bad >= 0 {
		return metric.Label{}, httpserver.BadEscape("path", name, bad)
	}
	key, encoded := strings.CutSuffix(decoded, base64Suffix)
	if !isLabelName(key) {
		return metric.Label{}, httpserver.BadRequest(`%q is not a label name; must be letters, digits and _, and must not begin with a digit or with "__"`, httpserver.Clip([]byte(key)))
	}
	text, f := pathValue(key, value, encoded)
	return metric.Label{Key: key, Value: text}, f
}

// pathText decodes a piece of a path. It borrows the piece if there is nothing to decode.
func pathText(piece []byte) (text string, bad int) {
	if bytes.IndexByte(piece, '%') < 0 {
		return metric.Borrow(piece), -1
	}
	decoded, bad := httpserver.Unescape(nil, piece, false)
	return string(decoded), bad
}

// pathValue reads a value, which may borrow from the path. Base64 uses the URL-safe alphabet, and
// "=" at the end is ignored: "=" alone is the empty string, which a path cannot express.
func pathValue(key string, value []byte, encoded bool) (string, *httpserver.Fault) {
	decoded, bad := pathText(value)
	if bad >= 0 {
		return "", httpserver.BadEscape("path", value, bad).About([]byte(key + "=" + string(value)))
	}
	if !encoded {
		return decoded, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(decoded, "="))
	if err != nil {
		return "", httpserver.BadRequest("the value of %q is not base64 of the URL-safe alphabet (A-Z a-z 0-9 - _): %q", key,
			httpserver.Clip([]byte(decoded))).About([]byte(key + "=" + decoded))
	}
	return string(text), nil
}

func isLabelName(s string) bool {
	if s == "" || strings.HasPrefix(s, "__") {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func (h *Handler) checkGrouping(labels []metric.Label, l metric.Label) *httpserver.Fault {
	switch {
	case len(labels) > h.limits.MaxLabels-2: // room for "instance", and one of the body
		return httpserver.Rejected(metric.TooLong, "there are more than %d grouping labels", h.limits.MaxLabels-2)
	case len(l.Key) > h.limits.MaxLabelBytes:
		return httpserver.Rejected(metric.TooLong, "a label's name has %d bytes; must have at most %d", len(l.Key),
			h.limits.MaxLabelBytes)
	case len(l.Value) > h.limits.MaxLabelBytes:
		return httpserver.Rejected(metric.TooLong, "the value of label %q has %d bytes; must have at most %d", l.Key,
			len(l.Value), h.limits.MaxLabelBytes)
	}
	return httpserver.CheckLabelText(l)
}

// Routes returns the routes of the protocol.
func (h *Handler) Routes() []*httpserver.Route {
	get := func(path string, handle func(*httpserver.Request), o httpserver.Operation) *httpserver.Route {
		o.Method, o.Path = "GET", path
		return &httpserver.Route{
			Paths: []string{path}, Index: []string{path}, Get: handle,
			Tag: "pushgateway", Operations: []httpserver.Operation{o},
		}
	}
	return []*httpserver.Route{
		{
			Match: h.matchGroup, Index: []string{"/metrics/job/{job}{/label/value}"},
			Put: h.replaceGroup, Post: h.mergeGroup, Delete: h.deleteGroup, Fail: (*httpserver.Request).FailPush,
			Tag: "pushgateway", Operations: groupOperations(),
		},
		get("/metrics", h.expose, httpserver.Operation{
			ID: "exposeGroups", Summary: "All groups that the sender may read, as an exposition",
			Params: "accept", Answers: "200:Exposition",
		}),
		get("/api/v1/metrics", h.listGroups, httpserver.Operation{
			ID: "listGroups", Summary: "The same as JSON", Answers: "200:Groups",
		}),
		get("/api/v1/status", h.status, httpserver.Operation{
			ID: "gatewayStatus", Summary: "Which build this is, since when it runs", Answers: "200:Status",
		}),
		{
			Paths: []string{"/api/v1/admin/wipe"}, Put: h.wipe, Disabled: !h.config.AdminWipe,
			Tag: "pushgateway", Operations: []httpserver.Operation{{
				Method: "PUT", Path: "/api/v1/admin/wipe", ID: "wipe",
				Summary: "Deletes all groups that the sender may delete; with --http-admin-wipe, else 404",
				Answers: "202:GroupDeleted 404:NotFound",
			}},
		},
		{
			Paths: []string{"/-/ready", "/-/healthy"}, Index: []string{"/-/ready, /-/healthy"},
			Get: healthy, Public: true,
			Tag: "pushgateway", Operations: []httpserver.Operation{
				{Method: "GET", Path: "/-/ready", ID: "ready", Summary: "Answers while the port is served", Answers: "200:OK"},
				{Method: "GET", Path: "/-/healthy", ID: "healthy", Summary: "Answers while the port is served", Answers: "200:OK"},
			},
		},
	}
}

// groupOperations describes the paths of matchGroup. OpenAPI has no path of any length, so there
// are three.
func groupOperations() (all []httpserver.Operation) {
	for _, group := range []struct{ path, name, params string }{
		{"/metrics/job/{job}", "Group", "job"},
		{"/metrics/job/{job}/{label}/{value}", "LabelledGroup", "job groupLabel groupValue"},
		{"/metrics/job@base64/{job}", "EncodedGroup", "job64"},
	} {
		push := httpserver.Operation{
			Path: group.path, Params: group.params + " ttl sync groupTTL groupSync encoding",
			Body: "Exposition", Answers: "200:Grouped 404:NotFound",
		}
		replace, merge := push, push
		replace.Method, replace.ID, replace.Summary = "PUT", "replace"+group.name, "Replaces a group"
		merge.Method, merge.ID, merge.Summary = "POST", "merge"+
			group.name, "Replaces the families of the same names in a group"
		all = append(all, replace, merge, httpserver.Operation{
			Method: "DELETE", Path: group.path, ID: "delete" + group.name, Summary: "Deletes a group",
			Params: group.params + " sync groupSync", Answers: "202:GroupDeleted 404:NotFound",
		})
	}
	return all
}
