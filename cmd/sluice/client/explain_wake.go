package client

import (
	"net/url"

	"github.com/sluice-metrics/sluice/inspect"
)

// wake reads what Sluice makes of the annotation sluice.dev/wake, if the autoscaler has it.
func (g *gatherer) wake() {
	a := &g.facts.Autoscaler
	if a.Wake == nil {
		return
	}
	is, err := fetch[inspect.Autoscaler](g.ctx, g.api, inspectPath("autoscalers", g.namespace)+"/"+url.PathEscape(a.Name))
	if err != nil {
		g.unknown("whether the target is woken", err)
		return
	}
	if is.Wake != nil {
		a.Wake = is.Wake
	}
}
