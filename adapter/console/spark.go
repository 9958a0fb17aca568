package console

import (
	"html/template"
	"math"
	"strconv"
)

// sparkMinutes is the length of a sparkline, which has a value for each ten seconds. sparkHeight is that of its
// drawing, in which two values are one apart.
const (
	sparkMinutes = 10
	sparkHeight  = 20
	sparkValues  = sparkMinutes * 60 / coarseStep
)

// sparkOf draws rows of a subject as one line each, of one scale; empty: there are no values.
func (h *history) sparkOf(of subject, ids ...string) template.HTML {
	_, all := h.read(of, ids, coarseStep, sparkValues)
	top, some := 0.0, false
	for _, row := range all {
		for _, v := range row {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				top, some = max(top, math.Abs(v)), true
			}
		}
	}
	if !some {
		return ""
	}
	out := make([]byte, 0, 512)
	out = append(out, `<svg class="spark" viewBox="0 0 59 20" preserveAspectRatio="none" aria-hidden="true">`...)
	for _, row := range all {
		out = append(out, `<path d="`...)
		out = appendPath(out, row, top)
		out = append(out, `"/>`...)
	}
	return template.HTML(append(out, "</svg>"...)) //nolint:gosec // numbers only
}

// appendPath writes a line as moves of SVG, in relative steps. A value that is missing is a gap.
func appendPath(out []byte, row []float64, top float64) []byte {
	at := -1
	for x, v := range row {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			at = -1
			continue
		}
		y := sparkHeight - 1
		if top > 0 {
			y = sparkHeight - 1 - int(max(v, 0)/top*(sparkHeight-2))
		}
		switch {
		case at < 0:
			out = strconv.AppendInt(append(out, 'M'), int64(x), 10)
			out = strconv.AppendInt(append(out, ' '), int64(y), 10)
			out = append(out, "h0"...)
		case y == at:
			out = append(out, "h1"...)
		default:
			out = append(out, "l1"...)
			if y > at {
				out = append(out, ' ')
			}
			out = strconv.AppendInt(out, int64(y-at), 10)
		}
		at = y
	}
	return out
}
