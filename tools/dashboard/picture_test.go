package main

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "draw the picture anew")

// The picture of the dashboard's first rows, and the size of a square of Grafana's grid in it.
const (
	picturePath  = "../../docs/dashboard.svg"
	pictureRows  = 3
	squareWidth  = 40
	squareHeight = 26
)

const pictureStyle = `
text { font: 12px system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif; fill: #1f2328 }
.row { font-size: 15px; font-weight: 600 } .value { font-size: 20px; font-weight: 600 } .stat { font-size: 10px } .soft { fill: #59636e }
.page { fill: #f4f5f5 } .panel { fill: #ffffff; stroke: #d8dee4 } .grid { stroke: #e6e9ec }
path { fill: none; stroke-width: 1.5 }
.s0 { stroke: #1a7f37; fill: #1a7f37 } .s1 { stroke: #9a6700; fill: #9a6700 } .s2 { stroke: #0969da; fill: #0969da }
.s3 { stroke: #bc4c00; fill: #bc4c00 } .good { fill: #1a7f37 } .bad { fill: #cf222e } path.s0, path.s1, path.s2, path.s3 { fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .soft { fill: #9da7b1 } .page { fill: #111217 } .panel { fill: #181b1f; stroke: #30363d } .grid { stroke: #26292e }
.s0 { stroke: #56d364; fill: #56d364 } .s1 { stroke: #e3b341; fill: #e3b341 } .s2 { stroke: #58a6ff; fill: #58a6ff }
.s3 { stroke: #ffa657; fill: #ffa657 } .good { fill: #2ea043 } .bad { fill: #f85149 } path.s0, path.s1, path.s2, path.s3 { fill: none }
}
`

// checkPicture: docs has the picture of these answers.
func checkPicture(t *testing.T, p prometheus) {
	t.Helper()
	drawn := draw(t, p)
	if *update {
		must(t, os.WriteFile(picturePath, drawn, 0o644))
	}
	if now, err := os.ReadFile(picturePath); err != nil || !bytes.Equal(now, drawn) {
		t.Errorf("%s is not of this dashboard (%v): go test ./dashboard -update", picturePath, err)
	}
}

type picture struct{ bytes.Buffer }

func (p *picture) add(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *picture) text(x, y float64, class, text string) {
	p.add(`<text x="%.0f" y="%.0f" class="%s">%s</text>`, x, y, class, html.EscapeString(text))
}

// A box is the place of a panel.
type box struct{ x, y, width, height float64 }

func draw(t *testing.T, p prometheus) []byte {
	t.Helper()
	body, bottom := new(picture), 0.0
	shown := rows[:pictureRows]
	panelOf := map[int]*panel{}
	number := 0
	for r := range shown {
		number++
		for i := range shown[r].panels {
			number++
			panelOf[number] = &shown[r].panels[i]
		}
	}
	for _, laid := range layOut(shown) {
		grid := laid["gridPos"].(object)
		at := box{float64(grid["x"].(int) * squareWidth), float64(grid["y"].(int) * squareHeight),
			float64(grid["w"].(int) * squareWidth), float64(grid["h"].(int) * squareHeight)}
		bottom = max(bottom, at.y+at.height)
		if panel := panelOf[laid["id"].(int)]; panel != nil {
			body.panel(t, p, panel, at)
		} else {
			body.text(at.x+6, at.y+18, "row", laid["title"].(string))
		}
	}
	whole := new(picture)
	whole.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" role="img"><title>%s</title><style>%s</style>`, 24*squareWidth, bottom,
		"The first rows of the dashboard at a week of series that a test made", pictureStyle)
	whole.add(`<rect class="page" width="100%%" height="100%%"/>`)
	whole.Write(body.Bytes())
	whole.add("</svg>")
	return whole.Bytes()
}

func (p *picture) panel(t *testing.T, source prometheus, panel *panel, at box) {
	t.Helper()
	p.add(`<rect class="panel" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`, at.x+2.5, at.y+2.5, at.width-5, at.height-5)
	class := map[bool]string{true: "stat"}[panel.look == stat || panel.look == name]
	p.text(at.x+10, at.y+20, class, panel.title)
	var lines []line
	var legends []string
	for _, query := range panel.queries {
		for _, line := range source.inTheWeek(t, chosen(query.expr)) {
			lines = append(lines, line)
			legends = append(legends, legendLabel.ReplaceAllStringFunc(query.legend, func(label string) string {
				return line.labels[strings.Trim(label, "{}")]
			}))
		}
	}
	plot := box{at.x + 12, at.y + 32, at.width - 24, at.height - 62}
	switch panel.look {
	case stat:
		value := lines[0].values[len(lines[0].values)-1]
		p.text(at.x+10, at.y+68, "value", panel.shown(value))
	case name:
		p.text(at.x+10, at.y+68, "value", legends[0])
	case states:
		p.states(lines, legends, box{plot.x + 220, plot.y, plot.width - 220, plot.height})
	default:
		p.graph(panel, lines, legends, box{plot.x + 58, plot.y, plot.width - 58, plot.height})
	}
}

// graph draws four lines at most, above the days, with the largest value beside them.
func (p *picture) graph(panel *panel, lines []line, legends []string, at box) {
	largest := 0.0
	for _, line := range lines {
		for _, value := range line.values {
			if value > largest { // NaN never is
				largest = value
			}
		}
	}
	for _, share := range []float64{0, 0.5, 1} {
		y := at.y + at.height*(1-share)
		p.add(`<path class="grid" d="M%.1f %.1fh%.1f"/>`, at.x, y, at.width)
		p.text(at.x-60, y+4, "soft", panel.shown(largest*share))
	}
	legend := at.x
	for i, line := range lines[:min(4, len(lines))] {
		path := new(strings.Builder)
		pen := "M"
		for j := 0; j < len(line.values); j += 6 {
			if math.IsNaN(line.values[j]) {
				pen = "M"
				continue
			}
			fmt.Fprintf(path, "%s%.0f %.1f", pen, at.x+at.width*float64(j)/float64(len(line.values)), at.y+at.height*(1-line.values[j]/largest))
			pen = "L"
		}
		p.add(`<path class="s%d" d="%s"/>`, i, path)
		p.add(`<rect class="s%d" x="%.0f" y="%.0f" width="8" height="3"/>`, i, legend, at.y+at.height+21)
		p.text(legend+12, at.y+at.height+26, "soft", legends[i])
		legend += 24 + 6*float64(len(legends[i]))
	}
	p.days(at)
}

// states draws a bar for each line, coloured where the state is 1.
func (p *picture) states(lines []line, legends []string, at box) {
	height := at.height / float64(len(lines))
	for i, line := range lines {
		y := at.y + height*float64(i)
		p.text(at.x-218, y+height/2+4, "soft", legends[i])
		p.add(`<rect class="good" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, at.x, y+2, at.width, height-4)
		for begin := 0; begin < len(line.values); begin++ {
			end := begin
			for end < len(line.values) && line.values[end] == 1 {
				end++
			}
			if end > begin {
				one := at.width / float64(len(line.values))
				p.add(`<rect class="bad" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, at.x+one*float64(begin), y+2, one*float64(end-begin), height-4)
				begin = end
			}
		}
	}
	p.days(at)
}

func (p *picture) days(at box) {
	for day := range 7 {
		p.text(at.x+at.width*float64(day)/7, at.y+at.height+13, "soft", weekBegins.Add(time.Duration(day)*24*time.Hour).Format("01-02"))
	}
}

// shown is a value as the panel's words and unit write it.
func (p *panel) shown(value float64) string {
	for _, word := range p.words {
		if fmt.Sprint(value) == word.value {
			return word.text
		}
	}
	suffix := map[string]string{"cps": " /s", "pps": " /s", "reqps": " /s", "Bps": "B/s", "bytes": "B", "s": " s"}[p.unit]
	if p.unit == "percentunit" {
		return fmt.Sprintf("%.2g%%", 100*value)
	}
	for _, prefix := range []string{"", "k", "M"} {
		if value < 1000 {
			return fmt.Sprintf("%.3g%s%s", value, prefix, suffix)
		}
		value /= 1000
	}
	return fmt.Sprintf("%.3gG%s", value, suffix)
}
