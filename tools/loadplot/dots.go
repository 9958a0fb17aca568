package main

// dotRow is a row of a dot plot: a name, dots on a logarithmic axis, and the values as text.
type dotRow struct {
	head    string // a heading above the row; empty: none
	name    string
	class   string
	values  []float64 // ascending: the largest dot is the last but one of three, or the only one
	written string
}

// Places of a dot plot.
const (
	rowHeight  = 23.0
	headHeight = 25.0
)

// dotPlot is the layout of a dot plot: the places where the axis begins and ends.
type dotPlot struct {
	*picture
	left, right float64
	unit        func(float64) string
}

func (d dotPlot) draw(rows []dotRow) {
	var values []float64
	for _, row := range rows {
		values = append(values, row.values...)
	}
	x := newAxis(values, d.left, d.right)
	top := d.height + 4
	bottom := top
	for _, row := range rows {
		bottom += rowHeight
		if row.head != "" {
			bottom += headHeight
		}
	}
	for _, tick := range x.multiples([]float64{1}) {
		d.line(x.at(tick), top, x.at(tick), bottom+4, "grid")
		d.text(x.at(tick), bottom+20, "soft", "middle", d.unit(tick))
	}
	y := top
	for _, row := range rows {
		if row.head != "" {
			y += headHeight
			d.text(edge, y-4, "head", "start", row.head)
		}
		y += rowHeight
		d.row(row, x, y-rowHeight/2)
	}
	d.height = bottom + 28
}

func (d dotPlot) row(row dotRow, x axis, y float64) {
	d.text(edge+10, y+5, "", "start", row.name)
	d.text(width-edge, y+5, "", "end", row.written)
	d.line(d.left, y, d.right, y, "grid")
	last := len(row.values) - 1
	d.path([]point{{x.at(row.values[0]), y}, {x.at(row.values[last]), y}}, row.class)
	if last == 0 {
		d.circle(x.at(row.values[0]), y, 6, row.class)
		return
	}
	d.circle(x.at(row.values[0]), y, 4, row.class+" open")
	for _, v := range row.values[1:last] {
		d.circle(x.at(v), y, 6, row.class)
	}
	d.path([]point{{x.at(row.values[last]), y - 6}, {x.at(row.values[last]), y + 6}}, row.class+" first")
}
