package pushgateway

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
)

// pagesAtOnce bounds the pages of groups that are written at once, each with the families of all groups, and pagesEach
// those to one namespace or sender.
const pagesAtOnce, pagesEach = 6, 2

// expose answers GET /metrics with the groups that the sender may read.
func (h *Handler) expose(x *httpserver.Request) {
	page, f := h.beginPage(x)
	if f != nil {
		x.Fail(f)
		return
	}
	format, escaping := exposition.Negotiate(x.HTTP.Request.Header.Peek(fasthttp.HeaderAccept))
	groups, f := h.readableGroups(x)
	var families []exposition.Family
	if f == nil {
		families, f = h.persisted(x, group.MergedFamilies(groups, escaping))
	}
	if f != nil {
		page.End()
		x.Fail(f)
		return
	}
	x.HTTP.SetContentType(format.ContentType() + "; escaping=" + escaping.String())
	x.WritePage(page, func(w *bufio.Writer) error { // all groups together may be large
		var piece []byte
		for i := range families {
			piece = exposition.Append(piece[:0], format, families[i])
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
		_, err := w.Write(exposition.AppendEnd(nil, format))
		return err
	})
}

// persisted returns the families of a page once they are on disk, because readers take a total that
// falls for a reset and count all of it again (docs/adr/0072). A page of gauges waits for nothing. While
// nothing is persisted, totals are left out.
func (h *Handler) persisted(x *httpserver.Request,
	families []exposition.Family) ([]exposition.Family, *httpserver.Fault) {
	switch {
	case h.config.Disk == nil || x.HTTP.IsHead() || !slices.ContainsFunc(families, mayBeTotal):
		return families, nil
	case h.config.Disk.Persisting() != nil:
		return slices.DeleteFunc(families, isTotal), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), httpserver.PersistTimeout)
	defer cancel()
	if err := h.config.Disk.Persist(ctx); err != nil {
		return nil, httpserver.Unpersisted(err)
	}
	return families, nil
}

// isTotal reports whether a family has totals, which only grow.
func isTotal(f exposition.Family) bool {
	return f.Type == exposition.CounterType || f.Type == exposition.SummaryType || f.Type == exposition.HistogramType
}

// mayBeTotal reports, in addition, numbers without a type.
func mayBeTotal(f exposition.Family) bool { return isTotal(f) || f.Type == exposition.UntypedType }

// beginPage waits for a place for a page of groups.
func (h *Handler) beginPage(x *httpserver.Request) (*connlimit.Page, *httpserver.Fault) {
	return x.BeginPage(h.pages, "groups")
}

// wipe answers PUT /api/v1/admin/wipe: it deletes all groups that the sender may delete. If
// credentials are checked, it requires the right to delete at the cluster scope. It first waits for groups
// that were pushed to other replicas. Those of a replica that is not heard stay.
func (h *Handler) wipe(x *httpserver.Request) {
	if x.ChecksCredentials() {
		if f := x.May(metric.Delete, metric.Object{}); f != nil {
			x.Fail(f)
			return
		}
	}
	unheard := x.HearReplicas()
	n := h.groups.Wipe(h.mayGroups(x, metric.Delete))
	if unheard != nil {
		x.Fail(&httpserver.Fault{
			Status: fasthttp.StatusServiceUnavailable, Reason: "sync", Uncounted: true,
			Message: fmt.Sprintf("%d groups were deleted, but not all replicas were heard; wipe again: %s", n, unheard),
		})
		return
	}
	x.Reply(fasthttp.StatusAccepted, httpserver.DeleteAnswer{Deleted: n})
}

// status answers GET /api/v1/status.
func (h *Handler) status(x *httpserver.Request) {
	x.Reply(fasthttp.StatusOK, apiAnswer{Status: "success", Data: map[string]any{
		"build_information": h.config.Build,
		"flags": map[string]string{
			"http-group-ttl":             h.config.TTL.String(),
			"http-admin-wipe":            strconv.FormatBool(h.config.AdminWipe),
			"http-max-body":              strconv.Itoa(h.limits.MaxBodyBytes),
			"http-max-decompressed-body": strconv.Itoa(h.limits.MaxDecompressed()),
		},
		"start_time": h.began.UTC().Format(time.RFC3339Nano),
	}})
}

// apiAnswer is the answer of a Pushgateway's API.
type apiAnswer struct {
	Status string `json:"status"`
	Data   any    `json:"data"`
}

// readableGroups returns the groups that the sender may read, without the series of external metrics that
// policies keep from it.
func (h *Handler) readableGroups(x *httpserver.Request) ([]group.Group, *httpserver.Fault) {
	if f := h.askAboutGroups(x, metric.Get); f != nil {
		return nil, f
	}
	all := h.groups.All(h.mayGroups(x, metric.Get))
	if h.config.Policies == nil {
		return all, nil
	}
	may := policy.ReaderView{Policies: h.config.Policies, Reader: x.Sender().Reader()}
	for i := range all {
		if g := &all[i]; g.Object.External() {
			g.Restrict(
				func(name string, k metric.Kind) bool { return may.MayReadKind(g.Object.Namespace, name, k) },
				func(name string, k metric.Kind, labels metric.Labels) bool {
					return may.MayHaveKind(g.Object.Namespace, name, k, labels.Selectable())
				})
		}
	}
	return all, nil
}

// mayGroups returns a test of which groups the sender may read or delete. It decides once per
// namespace, and asks no API server.
func (h *Handler) mayGroups(x *httpserver.Request, verb metric.Verb) func(metric.Object) bool {
	if !x.ChecksTrust() {
		return nil
	}
	known := map[metric.Object]bool{}
	return func(o metric.Object) bool {
		may, decided := known[o]
		if !decided {
			reason, _ := x.MayNow(verb, o)
			may = reason == metric.Applied
			if o.External() {
				known[o] = may
			}
		}
		return may
	}
}

// askAboutGroups asks the API server for all rights that the sender needs for all groups.
func (h *Handler) askAboutGroups(x *httpserver.Request, verb metric.Verb) *httpserver.Fault {
	return x.AskToList(verb, func(yield func(metric.Object) bool) {
		h.groups.All(func(o metric.Object) bool {
			yield(o)
			return false
		})
	})
}
