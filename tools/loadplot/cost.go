package main

import (
	"cmp"
	"fmt"
	"slices"
)

// The most scenarios in the picture of costs, and the places of a scenario's panel.
const (
	mostPanels  = 4
	panelLeft   = 72.0
	panelRight  = 478.0
	panelHeight = 150.0
	labelGap    = 17.0
)

// drawCost draws the cost of a line by rate, a panel per scenario; "" without figures.
func drawCost(all entries) string {
	lines := all.ofLines()
	titles := panelTitles(lines)
	if len(titles) == 0 {
		return ""
	}
	p := newPicture(costClaim(lines.titled(titles[0])))
	p.height += 4
	class := classes(lines.servers())
	for _, title := range titles {
		panel{picture: p, entries: lines.titled(title), class: class}.draw()
	}
	p.caption("CPU time of the server per line, user and system, by lines per second. Both scales are logarithmic. " +
		"Open circles: flat out, at the rate that the server took. At the right: Sluice's cost as a multiple of the " +
		"cheapest other server's, at the highest rate below flat out. Floors only count line ends: the blocking floor " +
		"is woken by each datagram, the gathering floor lets them gather for 10 ms.")
	return p.svg()
}

// panelTitles returns the scenarios to draw: those with peers, or else all.
func panelTitles(lines entries) (titles []string) {
	for _, title := range lines.titles() {
		if len(lines.titled(title).servers()) > 1 {
			titles = append(titles, title)
		}
	}
	if len(titles) == 0 {
		titles = lines.titles()
	}
	return titles[:min(len(titles), mostPanels)]
}

// costClaim compares Sluice with the cheapest peer of one scenario at the highest paced rate of
// both.
func costClaim(lines entries) string {
	ratio, peer, rate, ok := lines.comparison()
	if !ok {
		return "CPU time per line, by rate"
	}
	dear, cheap := peer, shown(sluice)
	if ratio < 1 {
		dear, cheap, ratio = cheap, dear, 1/ratio
	}
	return fmt.Sprintf("%s spends %s times %s's CPU on a line (%s, %s lines/s)",
		dear, trimmed(significant(ratio)), cheap, lines[0].title(), rateText(rate))
}

// comparison returns the cheapest peer's cost as a multiple of Sluice's, at the highest paced rate
// of one scenario.
func (all entries) comparison() (ratio float64, peer string, rate int, ok bool) {
	for _, r := range all.rates() {
		ours := all.at(r).of(sluice)
		least, found := all.at(r).cheapestPeer()
		if r == flatOut || !found || len(ours) == 0 {
			continue
		}
		ratio, peer, rate, ok = least.Columns[cpuPerLine].Median/ours[0].Columns[cpuPerLine].Median, least.Server, r, true
	}
	return ratio, peer, rate, ok
}

// panel draws one scenario.
type panel struct {
	*picture
	entries entries
	class   map[string]string
	x, y    axis
}

// curve is a line of the panel, with a point per rate.
type curve struct {
	name, class, dash string
	points            []costPoint
	valued            bool // with the values beside the points
}

type costPoint struct {
	rate, cost float64
	flatOut    bool
}

func (p panel) draw() {
	p.head()
	top := p.height + 16
	bottom := top + panelHeight
	curves := p.curves()
	var rates, costs []float64
	for _, c := range curves {
		for _, at := range c.points {
			rates, costs = append(rates, at.rate), append(costs, at.cost)
		}
	}
	p.x, p.y = newAxis(rates, panelLeft, panelRight-12), newAxis(costs, bottom, top)
	p.grid(top, bottom)
	for i := len(curves) - 1; i >= 0; i-- { // the first curve is on top
		p.curve(curves[i])
	}
	p.labels(curves, top, bottom)
	p.height = bottom + 28
}

// head writes the scenario, and the cost of Sluice as a multiple of the cheapest peer's.
func (p panel) head() {
	p.picture.height += 24
	first := p.entries[0]
	p.headed(edge, p.picture.height, first.title(), first.About)
	if ratio, peer, _, ok := p.entries.comparison(); ok {
		p.text(width-edge, p.picture.height, "soft", "end", trimmed(significant(1/ratio))+" × "+peer)
	}
}

// curves returns the curves of the servers and of the floors.
func (p panel) curves() (curves []curve) {
	for _, server := range p.entries.servers() {
		c := curve{name: shown(server), class: p.class[server], valued: server == sluice}
		for _, rate := range p.entries.rates() {
			for _, e := range p.entries.at(rate).of(server) {
				c.points = append(c.points, costPoint{e.Columns[takenRate].Median, e.Columns[cpuPerLine].Median, rate == flatOut})
			}
		}
		slices.SortStableFunc(c.points, func(a, b costPoint) int { return cmp.Compare(a.rate, b.rate) })
		curves = append(curves, c)
	}
	return append(curves, p.floor("blocking floor", blocking, "dash"), p.floor("gathering floor", gathering, "dot"))
}

// floor returns the curve of a floor, measured beside the first server.
func (p panel) floor(name, column, dash string) curve {
	c := curve{name: name, class: "f", dash: dash}
	first := p.entries.of(p.entries.servers()[0])
	for _, rate := range first.rates() {
		e := first.at(rate)[0]
		c.points = append(c.points, costPoint{e.Columns[takenRate].Median, e.Columns[column].Median, rate == flatOut})
	}
	return c
}

func (p panel) grid(top, bottom float64) {
	for _, tick := range p.y.ticks() {
		p.line(panelLeft, p.y.at(tick), panelRight, p.y.at(tick), "grid")
		p.text(panelLeft-6, p.y.at(tick)+5, "soft", "end", nanoseconds(tick))
	}
	for _, tick := range p.rateTicks() {
		p.line(p.x.at(tick), top, p.x.at(tick), bottom, "grid")
		p.text(p.x.at(tick), bottom+19, "soft", "middle", perSecond(tick))
	}
	p.text(panelRight+14, bottom+19, "soft", "start", "lines per second")
}

// rateTicks returns the paced rates, and powers of ten above.
func (p panel) rateTicks() (ticks []float64) {
	for _, rate := range p.entries.rates() {
		if rate != flatOut {
			ticks = append(ticks, float64(rate))
		}
	}
	for _, tick := range p.x.ticks() {
		if len(ticks) == 0 || tick > 2*ticks[len(ticks)-1] {
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

func (p panel) curve(c curve) {
	class, radius := c.class+" "+c.dash, 3.0
	if c.valued {
		class, radius = class+" first", 4.5
	}
	var points []point
	for _, at := range c.points {
		points = append(points, point{p.x.at(at.rate), p.y.at(at.cost)})
	}
	p.path(points, class)
	for i, at := range c.points {
		if c.dash != "" {
			continue
		}
		dot := c.class
		if at.flatOut {
			dot += " open"
		}
		p.circle(points[i].x, points[i].y, radius, dot)
		if c.valued && i < len(points)-1 {
			p.text(points[i].x+2, points[i].y-9, c.class+" head value", "start", nanoseconds(at.cost))
		}
	}
}

// labels writes the names of the curves beside their last points, and the last value.
func (p panel) labels(curves []curve, top, bottom float64) {
	curves = slices.DeleteFunc(slices.Clone(curves), func(c curve) bool { return len(c.points) == 0 })
	end := func(c curve) point {
		last := c.points[len(c.points)-1]
		return point{p.x.at(last.rate), p.y.at(last.cost)}
	}
	slices.SortStableFunc(curves, func(a, b curve) int { return cmp.Compare(end(a).y, end(b).y) })
	var wanted []float64
	for _, c := range curves {
		wanted = append(wanted, max(end(c).y, top))
	}
	for i, y := range apart(wanted, labelGap, bottom-8) {
		c, from := curves[i], end(curves[i])
		p.path([]point{{from.x + 5, from.y}, {panelRight + 4, y}}, c.class+" dot")
		class, label := c.class, c.name
		if c.valued {
			class, label = class+" head", label+" "+nanoseconds(c.points[len(c.points)-1].cost)
		}
		p.text(panelRight+8, y+5, class, "start", label)
	}
}
