package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// The width of every picture, the distance of text from the edge, and the width of a character in a
// wide font. A picture is 400 to 800 pixels wide on a page, so its text has 9 to 19 pixels.
const (
	width          = 640
	edge           = 14
	titleCharacter = 10.7
	textCharacter  = 7.8
)

// style has a colour per server for light and for dark backgrounds. No picture needs the colours to
// be told apart: each line and dot has a name beside it.
const style = `
text { font: 15px system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif; fill: #1f2328 }
.title { font-size: 18px; font-weight: 600 }
.head { font-weight: 600 }
.value { paint-order: stroke }
.soft { fill: #59636e }
.page { fill: #ffffff }
.grid { stroke: #d8dee4 }
line, path { fill: none; stroke-width: 1.5 }
path.first { stroke-width: 3 }
.dash { stroke-dasharray: 6 4 }
.dot { stroke-dasharray: 1.5 3 }
.s0 { stroke: #0060b8; fill: #0060b8 } .s1 { stroke: #c2410c; fill: #c2410c } .s2 { stroke: #0f766e; fill: #0f766e }
.s3 { stroke: #8a3ea8; fill: #8a3ea8 } .s4 { stroke: #8a6100; fill: #8a6100 } .f { stroke: #6e7781; fill: #6e7781 }
path.s0, path.s1, path.s2, path.s3, path.s4, path.f { fill: none }
circle.open { fill: #ffffff; stroke-width: 1.5 }
text.s0, text.s1, text.s2, text.s3, text.s4, text.f { stroke: none }
text.value { stroke: #ffffff; stroke-width: 4 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.soft { fill: #9da7b1 }
.page { fill: #0d1117 }
.grid { stroke: #30363d }
.s0 { stroke: #58b0ff; fill: #58b0ff } .s1 { stroke: #ff9a66; fill: #ff9a66 } .s2 { stroke: #4fd1b5; fill: #4fd1b5 }
.s3 { stroke: #d9a3f0; fill: #d9a3f0 } .s4 { stroke: #e5c04f; fill: #e5c04f } .f { stroke: #9da7b1; fill: #9da7b1 }
path.s0, path.s1, path.s2, path.s3, path.s4, path.f { fill: none }
circle.open { fill: #0d1117 }
text.value { stroke: #0d1117 }
}
`

// picture is an SVG that grows downwards.
type picture struct {
	body   strings.Builder
	height float64
	said   []string // the titles, for readers without pictures
}

// newPicture starts a picture with the claim that it shows.
func newPicture(claim string) *picture {
	p := &picture{height: edge, said: []string{claim}}
	for _, line := range wrapped(claim, (width-2*edge)/titleCharacter) {
		p.height += 24
		p.text(edge, p.height-6, "title", "start", line)
	}
	return p
}

func (p *picture) add(format string, args ...any) { fmt.Fprintf(&p.body, format+"\n", args...) }

// text writes a line of text; anchor is start, middle or end.
func (p *picture) text(x, y float64, class, anchor, text string) {
	p.add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(text))
}

// headed writes a heading with an explanation behind it.
func (p *picture) headed(x, y float64, head, about string) {
	p.add(`<text x="%.1f" y="%.1f"><tspan class="head">%s</tspan> <tspan class="soft">%s</tspan></text>`,
		x, y, html.EscapeString(head), html.EscapeString(about))
}

func (p *picture) line(x1, y1, x2, y2 float64, class string) {
	p.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func (p *picture) circle(x, y, radius float64, class string) {
	p.add(`<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"/>`, x, y, radius, class)
}

// path draws a line through points.
func (p *picture) path(points []point, class string) {
	var b strings.Builder
	for i, at := range points {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", letter, at.x, at.y)
	}
	p.add(`<path d="%s" class="%s"/>`, b.String(), class)
}

// caption adds small text below everything else.
func (p *picture) caption(text string) {
	for _, line := range wrapped(text, (width-2*edge)/textCharacter) {
		p.height += 20
		p.text(edge, p.height, "soft", "start", line)
	}
}

// svg returns the picture.
func (p *picture) svg() string {
	height := p.height + edge
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="%d" height="%.0f" role="img">
<title>%s</title>
<style>%s</style>
<rect class="page" width="100%%" height="100%%" rx="6"/>
%s</svg>
`, width, height, width, height, html.EscapeString(strings.Join(p.said, ". ")), style, p.body.String())
}

// point is a place in the picture.
type point struct{ x, y float64 }

// wrapped breaks a text into lines of a number of characters.
func wrapped(text string, most float64) (lines []string) {
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last >= 0 && float64(len([]rune(lines[last]))+1+len([]rune(word))) <= most {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// apart moves sorted positions as little as possible, so that each is at least gap after the one
// before and none is above most.
func apart(positions []float64, gap, most float64) []float64 {
	moved := slices.Clone(positions)
	for i := 1; i < len(moved); i++ {
		moved[i] = max(moved[i], moved[i-1]+gap)
	}
	for i := len(moved) - 1; i >= 0; i-- {
		moved[i] = min(moved[i], most)
		most = moved[i] - gap
	}
	return moved
}

// classes returns the class of each server: Sluice has the first.
func classes(servers []string) map[string]string {
	const peers = 4 // with a class of their own
	names, next := map[string]string{}, 0
	for _, server := range servers {
		if server == sluice {
			names[server] = "s0"
			continue
		}
		names[server] = fmt.Sprintf("s%d", 1+next%peers)
		next++
	}
	return names
}

// shown returns a server's name for readers.
func shown(server string) string {
	if server == sluice {
		return "Sluice"
	}
	return server
}
