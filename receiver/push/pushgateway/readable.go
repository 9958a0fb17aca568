package pushgateway

import (
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

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
					return may.MayHaveKind(g.Object.Namespace, name, k, labels.Selectable)
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

// askAboutGroups asks the API server for all rights that the sender needs for all groups: first for
// the one at the cluster scope, which includes the others.
func (h *Handler) askAboutGroups(x *httpserver.Request, verb metric.Verb) *httpserver.Fault {
	if !x.HasAccount() {
		return nil
	}
	lacking := map[metric.Right]bool{}
	look := func() {
		clear(lacking)
		h.groups.All(func(o metric.Object) bool {
			if reason, needs := x.MayNow(verb, o); reason == metric.Pending && !needs.IsZero() {
				lacking[needs] = true
			}
			return false
		})
	}
	if look(); len(lacking) == 0 {
		return nil
	}
	if f := x.Ask(metric.Right{Verb: verb}); f != nil {
		return f
	}
	if look(); len(lacking) == 0 {
		return nil
	}
	if len(lacking) > maxAskedPerListing {
		return nil
	}
	rights := make([]metric.Right, 0, len(lacking))
	for r := range lacking {
		rights = append(rights, r)
	}
	return x.AskAll(rights)
}

// maxAskedPerListing bounds the namespaces that are asked about one by one. Beyond, only the groups
// already known to be readable are listed, unless the sender may read at the cluster scope.
const maxAskedPerListing = 128
