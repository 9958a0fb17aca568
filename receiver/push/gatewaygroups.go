package push

import (
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
)

// readableGroups are the groups that the sender may read.
func (x *exchange) readableGroups() ([]group.Group, *fault) {
	if f := x.askAboutGroups(metric.Get); f != nil {
		return nil, f
	}
	return x.server.groups.All(x.mayGroups(metric.Get)), nil
}

// mayGroups says to which groups the sender may do something, by what they are about. It decides once for each namespace, and
// asks nobody.
func (x *exchange) mayGroups(verb metric.Verb) func(metric.Object) bool {
	if x.server.trust == nil {
		return nil
	}
	sender, known := x.sender(), map[metric.Object]bool{}
	return func(o metric.Object) bool {
		may, decided := known[o]
		if !decided {
			reason, _, _ := x.server.trust.May(sender, verb, o)
			may = reason == metric.Applied
			if o.External() {
				known[o] = may
			}
		}
		return may
	}
}

// askAboutGroups has the API server asked about all rights that the sender would need for all groups: first for the one at
// the cluster scope, which makes the others needless.
func (x *exchange) askAboutGroups(verb metric.Verb) *fault {
	if x.caller.account == nil {
		return nil
	}
	lacking := map[metric.Right]bool{}
	look := func() {
		clear(lacking)
		x.server.groups.All(func(o metric.Object) bool {
			if reason, _, needs := x.server.trust.May(x.sender(), verb, o); reason == metric.Pending && !needs.IsZero() {
				lacking[needs] = true
			}
			return false
		})
	}
	if look(); len(lacking) == 0 {
		return nil
	}
	if f := x.ask(metric.Right{Verb: verb}); f != nil {
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
	x.caller.asked -= len(rights) // they are bounded already
	return x.ask(rights...)
}

// maxAskedPerListing bounds the namespaces that are asked about one by one. Where there are more, only what is known to be the
// sender's is listed, unless it may read at the cluster scope.
const maxAskedPerListing = 128
