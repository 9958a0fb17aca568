package main

import (
	"errors"
	"io"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawCharts makes a chart of the cost of lines, and a chart of latencies for each report.
func drawCharts(reports []report) (charts []*plot.Plot, err error) {
	if names := loads(reports); len(names) > 0 {
		var bars []series
		for _, r := range reports {
			bars = append(bars, series{r.server(), r.column("cpu_ns_per_line", names)})
		}
		// The first report's floors stand for the machine.
		bars = append(bars, series{"blocking floor", reports[0].column("blocking_floor_ns_per_line", names)},
			series{"floor", reports[0].column("floor_ns_per_line", names)})
		chart, err := barChart("What a line costs", "CPU time, ns", names, bars)
		if err != nil {
			return nil, err
		}
		charts = append(charts, chart)
	}
	for _, r := range reports {
		names, values := r.latencies()
		if len(names) == 0 {
			continue
		}
		chart, err := barChart("Latency", "ms", names, []series{{r.server(), values}})
		if err != nil {
			return nil, err
		}
		charts = append(charts, chart)
	}
	if len(charts) == 0 {
		return nil, errors.New("the reports have neither the cost of a line nor a figure in ms")
	}
	return charts, nil
}

// series are bars of one colour, one per name.
type series struct {
	title  string
	values []float64
}

const groupWidth = 44 // in points: the width of all bars of one name

func barChart(title, unit string, names []string, all []series) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, unit
	p.Y.Min = 0
	p.Legend.Top = true
	width := vg.Points(groupWidth / float64(len(all)))
	for i, s := range all {
		bars, err := plotter.NewBarChart(plotter.Values(s.values), width)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = plotutil.Color(i), 0
		bars.Offset = width * vg.Length(float64(i)-float64(len(all)-1)/2)
		p.Add(bars)
		p.Legend.Add(s.title, bars)
	}
	p.NominalX(names...)
	p.Y.Max *= 1.25 // room for the legend
	return p, nil
}

// tile draws the charts below each other.
func tile(charts []*plot.Plot, on draw.Canvas) {
	tiles := draw.Tiles{Rows: len(charts), Cols: 1, PadY: vg.Centimeter, PadTop: vg.Millimeter, PadBottom: vg.Millimeter, PadRight: vg.Centimeter}
	for i, chart := range charts {
		chart.Draw(tiles.At(on, 0, i))
	}
}

func write(path string, from io.WriterTo) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = from.WriteTo(file)
	return errors.Join(err, file.Close())
}
