package command

import (
	"os"

	"golang.org/x/term"
)

// Lines of help are as long as the terminal is wide, between these. Without a terminal they have 80
// columns.
const (
	defaultColumns = 80
	leastColumns   = 40
	mostColumns    = 120 // longer lines are hard to read
)

// columns is the length of lines for a writer.
func columns(out any) int {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return defaultColumns
	}
	width, _ := TerminalSize(term.GetSize(int(file.Fd())))
	return min(max(width-1, leastColumns), mostColumns)
}

// TerminalSize is the size to draw at. A terminal without a known size, such as a serial line or a new
// pseudo terminal, reports 0 columns and 0 rows, and no error.
func TerminalSize(width, height int, err error) (columns, rows int) {
	if err != nil || width <= 0 {
		width = 80
	}
	if err != nil || height <= 0 {
		height = 24
	}
	return width, height
}
