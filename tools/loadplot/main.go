package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

func main() {
	out := flag.String("out", "loadtest.svg", "output file: .svg for a plot, .md for tables")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: loadplot [-out FILE.svg|FILE.md] REPORT.json...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(flag.Args(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "loadplot:", err)
		os.Exit(1)
	}
}

func run(paths []string, out string) error {
	if len(paths) == 0 {
		return errors.New("no report is given; must be one or more files that sluice-loadtest -o json wrote")
	}
	var reports []report
	for _, path := range paths {
		r, err := readReport(path)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	extension := strings.ToLower(filepath.Ext(out))
	if extension == ".md" {
		return writeTable(reports, out)
	}
	charts, err := drawCharts(reports)
	if err != nil {
		return err
	}
	width, height := 24*vg.Centimeter, vg.Length(len(charts))*10*vg.Centimeter
	switch extension {
	case ".svg":
		canvas := vgsvg.New(width, height)
		tile(charts, draw.New(canvas))
		return write(out, canvas)
	default:
		return fmt.Errorf("-out is %q; must end in .svg or .md", out)
	}
}
