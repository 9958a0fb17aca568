package client

import (
	"net/url"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// wake reads what Sluice makes of the annotations sluice.dev/wake and sluice.dev/instant, if the autoscaler has
// them.
func (g *gatherer) wake() {
	a := &g.facts.Autoscaler
	if a.Wake == nil && a.Instant == nil {
		return
	}
	is, err := fetch[inspect.Autoscaler](g.ctx, g.api, inspectPath("autoscalers", g.namespace)+"/"+url.PathEscape(a.Name))
	if err != nil {
		g.unknown("whether the target is woken, or the controller nudged", err)
		return
	}
	if is.Wake != nil {
		a.Wake = is.Wake
	}
	if is.Instant != nil {
		a.Instant = is.Instant
	}
}
