package client

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/resource"
)

// printTable prints values as kubectl does. With a stat, the table is wide: it adds that, the exact quantity
// and the timestamp.
func printTable(out io.Writer, values []measured, stat string, now time.Time) error {
	if len(values) == 0 {
		_, err := fmt.Fprintln(out, "no values")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprint(table, "OBJECT/LABELS\tMETRIC\tVALUE\tWINDOW\tAGE")
	if stat != "" {
		fmt.Fprint(table, "\tSTAT\tQUANTITY\tTIMESTAMP")
	}
	fmt.Fprintln(table)
	for _, v := range values {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s", metric.Visible(v.about), metric.Visible(v.metric), v.print(), printWindow(v.window), v.age(now))
		if stat != "" {
			fmt.Fprintf(table, "\t%s\t%s\t%s", stat, v.value, v.at.UTC().Format(time.RFC3339))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// print formats the value for people: a whole number exactly, others with six significant digits,
// or more where there are more before the point. "16667m" is 16.667.
func (v measured) print() string {
	if quantity, err := resource.ParseQuantity(v.value); err == nil {
		if whole, ok := quantity.AsInt64(); ok {
			return strconv.FormatInt(whole, 10)
		}
	}
	return plainNumber(v.number)
}

// milli is the value in thousandths, rounded up, as autoscalers read it.
func (v measured) milli() int64 {
	quantity, err := resource.ParseQuantity(v.value)
	if err != nil {
		return 0
	}
	return quantity.MilliValue()
}

// significantDigits is the number of digits printed for people.
const significantDigits = 6

func plainNumber(v float64) string {
	if v == math.Trunc(v) || math.IsInf(v, 0) || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	before := 0 // digits before the point; negative: zeros after it
	if v != 0 {
		before = int(math.Floor(math.Log10(math.Abs(v)))) + 1
	}
	text := strconv.FormatFloat(v, 'f', max(0, significantDigits-before), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// age is the age of the newest sample. A windowed value has none: its timestamp is the window's
// end.
func (v measured) age(now time.Time) string {
	if v.window != 0 {
		return "-"
	}
	return inspect.Age(now.Sub(v.at)) // the API's timestamps have whole seconds
}

func printWindow(w time.Duration) string {
	if w == 0 {
		return "-"
	}
	return metric.FormatWindow(w)
}
