package client

import (
	"fmt"
	"io"
	"maps"
	"os"
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

// listShower shows one reading of a list, or its error.
type listShower func(now time.Time, all listed, err error) error

// shower redraws a terminal that can move its cursor, and prints what changed elsewhere.
func (o *listOptions) shower(out io.Writer, resource inspect.Resource) listShower {
	encode := map[string]func(listed) error{
		"json": func(all listed) error { return all.printLine(out, resource) },
		"yaml": func(all listed) error {
			fmt.Fprintln(out, "---")
			return o.printDocument(out, resource, all)
		},
	}[o.output.Word]
	if encode != nil {
		return func(now time.Time, all listed, err error) error {
			if err != nil {
				return err
			}
			return encode(all)
		}
	}
	if file, ok := out.(*os.File); ok && isScreen(file) {
		fmt.Fprint(out, clearScreen)
		return func(now time.Time, all listed, err error) error {
			var text strings.Builder
			if err != nil {
				fmt.Fprintln(&text, because(err))
			} else if err := o.print(&text, resource, all.documents, now); err != nil {
				return err
			}
			width, height := screenSize(file)
			_, err = fmt.Fprint(out, toTop+fitted(text.String(), width, height)+clearRest)
			return err
		}
	}
	return o.changes(out, resource)
}

// fitted cuts a text to the size of a terminal. It clears the rest of each line. A longer line would wrap,
// and the rows below it would scroll the first ones out of sight.
func fitted(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = clip(line, width)
	}
	if len(lines) >= height {
		left := len(lines) - height + 2
		lines = append(lines[:max(height-2, 0)], fmt.Sprintf("… %d more", left))
	}
	return strings.Join(lines, clearLine+"\n") + clearLine + "\n"
}

const clearLine = "\x1b[K"

// changes prints the rows that are new or changed, and the names of those that are gone, with the
// time. An age alone is no change.
func (o *listOptions) changes(out io.Writer, resource inspect.Resource) listShower {
	rows, before := alignedRows{out: out}, map[string]string(nil)
	return func(now time.Time, all listed, err error) error {
		stamp := now.Format(time.TimeOnly)
		if err != nil {
			return rows.print([][]string{{stamp, metric.Visible(because(err))}})
		}
		var changed [][]string
		if before == nil && !o.noHeaders {
			changed = append(changed, append([]string{"TIME"}, o.columnNames(resource)...))
		}
		after := map[string]string{}
		for _, document := range all.documents {
			meta, fixed := document.Meta(), document.Cells(time.Time{}) // at the beginning of time all ages are 0
			key := strings.TrimPrefix(meta.Namespace+"/", "/") + strings.Join(fixed[:resource.Identity], " ")
			shown := o.cells(resource, document, time.Time{})
			if after[key] = strings.Join(shown, "\t"); before[key] != after[key] {
				changed = append(changed, append([]string{stamp}, o.cells(resource, document, now)...))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if _, stays := after[key]; !stays {
				changed = append(changed, []string{stamp, metric.Visible(key) + " is gone"})
			}
		}
		before = after
		return rows.print(changed)
	}
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
