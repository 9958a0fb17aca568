package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// printTable prints values as kubectl would. Wide adds the exact quantity and the timestamp.
func printTable(out io.Writer, values []measured, wide bool, now time.Time) error {
	if len(values) == 0 {
		_, err := fmt.Fprintln(out, "no values")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprint(table, "OBJECT/LABELS\tMETRIC\tVALUE\tWINDOW\tAGE")
	if wide {
		fmt.Fprint(table, "\tQUANTITY\tTIMESTAMP")
	}
	fmt.Fprintln(table)
	for _, v := range values {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s", v.about, v.metric, plainNumber(v.number), printWindow(v.window), printAge(now.Sub(v.at)))
		if wide {
			fmt.Fprintf(table, "\t%s\t%s", v.value, v.at.UTC().Format(time.RFC3339))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// plainNumber prints for people: "16667m" is 16.667.
func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func printWindow(w time.Duration) string {
	if w == 0 {
		return "-"
	}
	return metric.FormatWindow(w)
}

// printAge prints how long ago in one unit, as kubectl does. The API's stamps have whole seconds.
func printAge(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(max(d, 0)/time.Second)) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}
