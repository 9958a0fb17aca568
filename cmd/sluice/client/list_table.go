package client

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// columnNames are the columns of a list; with all namespaces, NAMESPACE is the first.
func (o *listOptions) columnNames(resource inspect.Resource) (names []string) {
	if o.namespace == "" && !resource.Cluster() {
		names = append(names, "NAMESPACE")
	}
	for _, column := range resource.Columns {
		if !column.Wide || o.output.Word == "wide" {
			names = append(names, column.Name)
		}
	}
	return names
}

// cells are the values of a document's columns.
func (o *listOptions) cells(resource inspect.Resource, document inspect.Document, now time.Time) (cells []string) {
	if o.namespace == "" && !resource.Cluster() {
		namespace := document.Meta().Namespace
		if namespace == "" {
			namespace = "-"
		}
		cells = append(cells, namespace)
	}
	for i, cell := range document.Cells(now) {
		if cell = metric.Visible(cell); i < resource.Identity && o.output.Word != "wide" {
			cell = narrow(cell)
		}
		if !resource.Columns[i].Wide || o.output.Word == "wide" {
			cells = append(cells, cell)
		}
	}
	return cells
}

// widest bounds the characters of names: a pusher's long one would push the other columns of all rows out
// of sight. -o wide has it whole.
const widest = 80

// narrow shortens a name to its beginning and its end.
func narrow(cell string) string {
	all := []rune(cell)
	if len(all) <= widest {
		return cell
	}
	return string(all[:widest/2]) + "…" + string(all[len(all)-widest/2+1:])
}

// print prints a table as kubectl does.
func (o *listOptions) print(out io.Writer, resource inspect.Resource, all []inspect.Document, now time.Time) error {
	if len(all) == 0 && len(o.names) > 0 { // others may be there; the error names those that are not
		return nil
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, o.nothing(resource))
		return err
	}
	if !o.sort.IsSet() {
		newestFirst(all)
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	if !o.noHeaders {
		fmt.Fprintln(table, strings.Join(o.columnNames(resource), "\t"))
	}
	for _, document := range all {
		fmt.Fprintln(table, strings.Join(o.cells(resource, document, now), "\t"))
	}
	return table.Flush()
}

// newestFirst sorts rejections for people, who look for what happened last.
func newestFirst(all []inspect.Document) {
	slices.SortStableFunc(all, func(a, b inspect.Document) int {
		first, isRejection := a.(*inspect.Rejection)
		if !isRejection {
			return 0
		}
		return b.(*inspect.Rejection).Last.Compare(first.Last)
	})
}

// clusterOnly are the lists of which a standalone Sluice has nothing.
var clusterOnly = map[string]bool{"autoscalers": true, "limituses": true, "policies": true, "targets": true}

// nothing says that a list is empty.
func (o *listOptions) nothing(resource inspect.Resource) string {
	names := strings.NewReplacer("autoscalers", "HorizontalPodAutoscalers", "limituses", "limits")
	text := "no " + names.Replace(resource.Name)
	if o.namespace != "" {
		text += " in namespace " + o.namespace
	}
	if o.standalone && clusterOnly[resource.Name] {
		text += ": this Sluice runs standalone, and they exist in a cluster only (of a cluster: --kubeconfig)"
	}
	return text
}

// alignedRows prints rows whose columns are aligned as far as the widths are known so far: rows are
// printed before the next ones exist.
type alignedRows struct {
	out    io.Writer
	widths []int
}

// print prints rows. The last cell of each is not padded.
func (a *alignedRows) print(rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			if i == len(a.widths) {
				a.widths = append(a.widths, 0)
			}
			a.widths[i] = max(a.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			text.WriteString(cell + strings.Repeat(" ", a.widths[i]-utf8.RuneCountInString(cell)+3))
		}
		text.WriteString(row[len(row)-1] + "\n")
	}
	_, err := io.WriteString(a.out, text.String())
	return err
}
