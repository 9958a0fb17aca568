package serieshttp

import (
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
)

// maxPatterns bounds the values of each parameter of a request.
const maxPatterns = 64

// readOptions reads the query and the Accept header. A parameter without a value counts as missing.
func readOptions(x *httpserver.Request) (o export.Options, f *httpserver.Fault) {
	o.Format, o.Escaping = exposition.Negotiate(x.HTTP.Request.Header.Peek(fasthttp.HeaderAccept))
	secondsGiven := false
	f = x.EachParam(x.HTTP.URI().QueryString(), func(key, value string) *httpserver.Fault {
		secondsGiven = secondsGiven || key == "seconds"
		return setOption(&o, key, strings.Clone(value)) // the page outlives the request
	})
	if f != nil {
		return o, f
	}
	if o.Naming == export.StatsDExporter && !secondsGiven {
		o.Seconds = []string{"*"}
	}
	return o, nil
}

func setOption(o *export.Options, key, value string) *httpserver.Fault {
	var err error
	switch key {
	case "match":
		return add(&o.Match, key, value)
	case "namespace":
		return add(&o.Namespaces, key, value)
	case "seconds":
		return add(&o.Seconds, key, value)
	case "timers":
		if value != "" {
			o.Timers, err = export.ParseTimers(value)
		}
	case "naming":
		if value != "" {
			o.Naming, err = export.ParseNaming(value)
		}
	default:
		return httpserver.BadRequest("the parameter %q is unknown: this request takes match, namespace, timers, naming, seconds", key)
	}
	if err != nil {
		return httpserver.BadRequest("%v", err)
	}
	return nil
}

func add(to *[]string, key, value string) *httpserver.Fault {
	if value == "" {
		return nil
	}
	if len(*to) == maxPatterns {
		return httpserver.BadRequest("the parameter %q appears more than %d times", key, maxPatterns)
	}
	*to = append(*to, value)
	return nil
}

// restrict drops the series from a page that the sender may not read. It fails if none are left.
func restrict(x *httpserver.Request, page *export.Page) *httpserver.Fault {
	if !x.ChecksTrust() || page.Empty() {
		return nil
	}
	if f := x.AskToList(metric.Get, slices.Values(page.Scopes())); f != nil {
		return f
	}
	var unreadable metric.Object
	page.Keep(func(o metric.Object) bool {
		reason, _ := x.MayNow(metric.Get, o)
		if reason != metric.Applied {
			unreadable = o
		}
		return reason == metric.Applied
	})
	if page.Empty() {
		return x.May(metric.Get, unreadable)
	}
	return nil
}

// readable returns the policies' verdict about series of external metrics; nil: all may be read.
func (h *Handler) readable(x *httpserver.Request) func(*metric.Family, metric.Kind, metric.Labels) bool {
	if h.policies == nil {
		return nil
	}
	may := policy.ReaderView{Policies: h.policies, Reader: x.Sender().Reader()}
	return func(f *metric.Family, k metric.Kind, labels metric.Labels) bool {
		return may.MayHaveKind(f.Namespace, f.Name, k, labels.Selectable())
	}
}
