package main

import "regexp"

// A row is a headline and the panels below it, from left to right. A line of the grid is 24 wide.
type row struct {
	title  string
	panels []panel
}

// A panel shows queries over time, or, with a look of its own, otherwise.
type panel struct {
	title string
	// about is the text behind the panel's i; empty: the title says it.
	about string
	// unit is Grafana's name of it; empty: a plain number.
	unit string
	// width in columns; 0: 12 of a graph, 3 of a stat.
	width   int
	look    look
	words   []word
	steps   []step
	queries []query
}

// A look is how a panel draws its queries.
type look string

const (
	graph  look = "timeseries"
	stat   look = "stat"
	states look = "state-timeline"
	// name is a stat that shows the query's legend instead of its value.
	name look = "name"
)

// A query is an expression and the legend of its series. Every metric in the expression gets the
// matchers of the dashboard's variables.
type query struct{ expr, legend string }

// A word is shown instead of a value.
type word struct{ value, text, color string }

// A step is the color of values from this one on.
type step struct {
	from  any
	color string
}

// layOut places the panels of the rows on the grid and numbers them.
func layOut(rows []row) (panels []object) {
	y := 0
	for _, row := range rows {
		panels = append(panels, object{
			"id": len(panels) + 1, "type": "row", "title": row.title, "collapsed": false, "panels": []any{},
			"gridPos": object{"x": 0, "y": y, "w": 24, "h": 1},
		})
		y++
		x, tallest := 0, 0
		for _, one := range row.panels {
			width, height := one.size()
			if x+width > 24 {
				x, y, tallest = 0, y+tallest, 0
			}
			panels = append(panels, one.render(len(panels)+1, object{"x": x, "y": y, "w": width, "h": height}))
			x, tallest = x+width, max(tallest, height)
		}
		y += tallest
	}
	return panels
}

func (p *panel) size() (width, height int) {
	width, height = 12, 8
	if p.look == stat || p.look == name {
		width, height = 3, 4
	}
	if p.width > 0 {
		width = p.width
	}
	return width, height
}

func (p *panel) render(id int, place object) object {
	drawn := object{
		"id": id, "type": p.kind(), "title": p.title, "datasource": source, "gridPos": place,
		"fieldConfig": object{"defaults": p.defaults(), "overrides": []any{}},
		"options":     p.options(),
	}
	if p.about != "" {
		drawn["description"] = p.about
	}
	var targets []object
	for i, query := range p.queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "expr": chosen(query.expr), "legendFormat": query.legend,
		})
	}
	drawn["targets"] = targets
	return drawn
}

func (p *panel) kind() look {
	switch p.look {
	case "":
		return graph
	case name:
		return stat
	}
	return p.look
}

func (p *panel) defaults() object {
	unit := p.unit
	if unit == "" {
		unit = "short"
	}
	defaults := object{"unit": unit, "min": 0}
	if len(p.words) > 0 {
		options := object{}
		for i, word := range p.words {
			options[word.value] = object{"index": i, "text": word.text, "color": word.color}
		}
		defaults["mappings"] = []object{{"type": "value", "options": options}}
	}
	if len(p.steps) > 0 {
		steps := []object{}
		for _, step := range p.steps {
			steps = append(steps, object{"value": step.from, "color": step.color})
		}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
	}
	return defaults
}

func (p *panel) options() object {
	legend := object{"showLegend": true, "displayMode": "list", "placement": "bottom"}
	switch p.look {
	case states:
		return object{"showValue": "never", "mergeValues": true, "rowHeight": 0.8, "legend": legend}
	case stat, name:
		options := object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "none"}
		if len(p.words)+len(p.steps) > 0 {
			options["colorMode"] = "value"
		}
		if p.look == name {
			options["textMode"] = "name"
		}
		return options
	}
	return object{
		"legend":  legend,
		"tooltip": object{"mode": "multi", "sort": "desc"},
	}
}

var selector = regexp.MustCompile(`\b((?:sluice|process)_[a-z_]+)(?:\{([^}]*)\})?`)

// chosen adds the variables' matchers to every metric of an expression.
func chosen(expr string) string {
	return selector.ReplaceAllStringFunc(expr, func(found string) string {
		parts := selector.FindStringSubmatch(found)
		matchers := `cluster=~"$cluster",job=~"$job"`
		if parts[2] != "" {
			matchers += "," + parts[2]
		}
		return parts[1] + "{" + matchers + "}"
	})
}
