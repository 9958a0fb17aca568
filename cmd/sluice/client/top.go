package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/cobra"
)

const topLong = `Top shows the HorizontalPodAutoscalers, the worst first: replicas, each metric's value against its target as a bar, and what is wrong or holds the autoscaler.

In the bar, █ is the value, ▒ the tolerance around the target, in which the controller changes nothing.

On a terminal it reads again each --interval. "/" filters while you type, Enter keeps the filter and Esc removes it, the arrows scroll, "q" ends it. Elsewhere it prints the table once.`

const topExample = `  sluice top
  sluice top -A
  sluice top -n shop --filter web
  sluice top -A --no-headers | grep missing`

// topOptions say which autoscalers to show.
type topOptions struct {
	list     listOptions
	filter   string
	interval time.Duration
}

func newTop() *cobra.Command {
	o := topOptions{list: listOptions{output: command.NewOutput("table")}}
	cmd := &cobra.Command{
		Use:     "top",
		Short:   "Show the autoscalers, the worst first",
		Long:    topLong,
		Example: topExample,
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			o.list.api.dataDirSet = cmd.Flags().Changed("data-dir")
			if o.interval < 100*time.Millisecond {
				faults = append(faults, fmt.Errorf("--interval is %v; must be at least 100ms", o.interval))
			}
			faults = append(append(faults, command.NoneOf(args)...), o.list.validate(inspect.Resource{}))
			if err := command.Usage(faults...); err != nil {
				return err
			}
			return o.run(cmd)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	command.UnderHeading(flags, "Question", func() {
		flags.StringVarP(&o.list.namespace, "namespace", "n", "", "Namespace of the autoscalers.")
		flags.BoolVarP(&o.list.all, "all-namespaces", "A", false, "Show all namespaces.")
		flags.StringVar(&o.filter, "filter", "", "Part of the namespaces and names, or of the metrics' names.")
	})
	command.UnderHeading(flags, "Output", func() {
		flags.DurationVar(&o.interval, "interval", time.Second, "On a terminal, the time between two reads.")
		flags.BoolVar(&o.list.noHeaders, "no-headers", false, "Print the table without its headers.")
	})
	command.UnderHeading(flags, "Server", func() { o.list.api.bind(flags) })
	completeNamespaces(cmd, &o.list.api)
	return cmd
}

func (o *topOptions) run(cmd *cobra.Command) error {
	api, err := o.list.api.connect()
	if err != nil {
		return err
	}
	resource, _ := inspect.ResourceNamed("autoscalers")
	if o.list.standalone = api.standalone; o.list.namespace == "" && !o.list.all {
		o.list.namespace = api.namespace
	}
	read := func(ctx context.Context) ([]topRow, error) {
		all, err := o.list.read(ctx, api, resource)
		return topRows(all.documents), err
	}
	view := topView{filter: o.filter, header: !o.list.noHeaders, nothing: o.list.nothing(resource)}
	if file, ok := cmd.OutOrStdout().(*os.File); ok && isScreen(file) {
		ctx, release := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer release()
		return view.follow(ctx, file, o.interval, read)
	}
	if view.rows, err = read(cmd.Context()); err != nil {
		return err
	}
	return view.table(cmd.OutOrStdout())
}

// topRow is an autoscaler with what is shown of it.
type topRow struct {
	*inspect.Autoscaler
	explain.Standing
	most float64 // the largest share that a metric has of its target
}

// topRows sorts autoscalers: the worst first, then those nearest to, or above, their targets.
func topRows(all []inspect.Document) (rows []topRow) {
	for _, document := range all {
		a, is := document.(*inspect.Autoscaler)
		if !is {
			continue
		}
		row := topRow{Autoscaler: a, Standing: explain.StandingOf(a)}
		for i := range a.Metrics {
			if share := explain.ShareOfTarget(a, &a.Metrics[i]); share > row.most { // NaN isn't
				row.most = share
			}
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(b.most, a.most))
	})
	return rows
}

// matches reports whether a filter takes the autoscaler.
func (r *topRow) matches(filter string) bool {
	text := r.Namespace + "/" + r.Name
	for i := range r.Metrics {
		text += " " + r.Metrics[i].Name
	}
	return strings.Contains(strings.ToLower(text), strings.ToLower(filter))
}

// topColumns are the columns of the table.
const topColumns = "AUTOSCALER\tREPLICAS\tMIN-MAX\tMETRIC\tVALUE\tTARGET\tOF TARGET\t\tSTATE"

// lines are the rows of the table, one for each metric.
func (r *topRow) lines() (lines []string) {
	replicas := fmt.Sprint(r.CurrentReplicas)
	if r.Wants() && r.DesiredReplicas != r.CurrentReplicas {
		replicas += fmt.Sprintf("→%d", r.DesiredReplicas)
	}
	first := []string{r.Namespace + "/" + r.Name, replicas, fmt.Sprintf("%d-%d", r.MinReplicas, r.MaxReplicas)}
	state := r.Hold
	down, up := explain.Tolerances(r.Autoscaler)
	for i := range r.Metrics {
		m := &r.Metrics[i]
		value, percent, drawn := "-", "-", ""
		if share := explain.ShareOfTarget(r.Autoscaler, m); !math.IsNaN(share) {
			percent, drawn = fmt.Sprintf("%.0f%%", 100*share), bar(share, down, up)
			value = shortNumber(share * explain.Number(strings.TrimSuffix(m.Target, "%")))
		} else if m.Missing {
			value = "missing"
		}
		lines = append(lines, strings.Join(append(first, m.Name, value, m.Target, percent, drawn, state), "\t"))
		first, state = []string{"", "", ""}, ""
	}
	if len(lines) == 0 {
		lines = []string{strings.Join(append(first, "-", "-", "-", "-", "", state), "\t")}
	}
	return lines
}

// Cells of a bar, of which some are below the target.
const (
	barCells    = 18
	targetCells = 12
)

// bar draws a share of a target, and the tolerance around it.
func bar(share, down, up float64) string {
	var b strings.Builder
	for i := range barCells {
		switch at := (float64(i) + 0.5) / targetCells; {
		case i == barCells-1 && share >= float64(barCells)/targetCells:
			b.WriteRune('▶')
		case at <= share:
			b.WriteRune('█')
		case at >= 1-down && at <= 1+up:
			b.WriteRune('▒')
		default:
			b.WriteRune('·')
		}
	}
	return b.String()
}

// topView is what the screen shows.
type topView struct {
	rows    []topRow
	header  bool
	nothing string // what is said of an empty list
	fault   error  // of the newest read
	at      time.Time

	filter string
	typing bool
	offset int // the first row that is shown
}

// table prints the autoscalers that the filter takes.
func (v *topView) table(out io.Writer) error {
	if len(v.rows) == 0 {
		_, err := fmt.Fprintln(out, v.nothing)
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if v.header {
		fmt.Fprintln(table, topColumns)
	}
	for i := range v.rows {
		if row := &v.rows[i]; row.matches(v.filter) {
			for _, line := range row.lines() {
				fmt.Fprintln(table, visibleCells(line))
			}
		}
	}
	return table.Flush()
}

// visibleCells escapes what moves a cursor, but not the tabs between cells.
func visibleCells(line string) string {
	cells := strings.Split(line, "\t")
	for i, cell := range cells {
		cells[i] = metric.Visible(cell)
	}
	return strings.Join(cells, "\t")
}

// follow reads and draws until "q" is pressed or ctx ends.
func (v *topView) follow(ctx context.Context, file *os.File, interval time.Duration,
	read func(context.Context) ([]topRow, error)) error {
	keys := make(chan string)
	ctx, giveBack := untilKey(ctx, func(key string) (ends bool) {
		select {
		case keys <- key:
		case <-ctx.Done():
		}
		return false
	})
	fmt.Fprint(file, hideCursor+clearScreen)
	defer func() {
		giveBack()
		fmt.Fprint(file, showCursor+"\r\n")
	}()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for fresh := true; ; {
		if fresh {
			rows, err := read(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if v.at.IsZero() && err != nil {
				return err
			}
			if v.fault, v.at = err, time.Now(); err == nil {
				v.rows = rows
			}
		}
		width, height := screenSize(file)
		if _, err := fmt.Fprint(file, toTop+v.draw(width, height)+clearRest); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			fresh = true
		case key := <-keys:
			if fresh = false; v.press(key) {
				return nil
			}
		}
	}
}

// Keys beside letters, as terminals send them.
const (
	escape    = "\x1b"
	arrowUp   = "\x1b[A"
	arrowDown = "\x1b[B"
	enter     = "\r"
	backspace = "\x7f"
)

// press reacts to a key, and reports whether it ends the command.
func (v *topView) press(key string) (ends bool) {
	switch {
	case key == arrowUp:
		v.offset--
	case key == arrowDown:
		v.offset++
	case key == escape:
		v.typing, v.filter = false, ""
	case v.typing:
		v.typeKey(key)
	case key == "/":
		v.typing = true
	}
	return strings.Contains(endKeys, key) && (!v.typing || key < " ")
}

// typeKey changes the filter. What is pasted comes as one key.
func (v *topView) typeKey(key string) {
	switch key {
	case enter:
		v.typing = false
	case backspace:
		letters := []rune(v.filter)
		v.filter = string(letters[:max(len(letters)-1, 0)])
	default:
		if key >= " " && !strings.HasPrefix(key, escape) {
			v.filter += key
		}
	}
	v.offset = 0
}

// draw is the screen: what is shown, the table, and how to go on.
func (v *topView) draw(width, height int) string {
	var body strings.Builder
	_ = v.table(&body) // into memory
	lines := strings.Split(strings.TrimSuffix(body.String(), "\n"), "\n")
	head := []string{v.heading()}
	if v.header && len(v.rows) > 0 {
		head, lines = append(head, lines[0]), lines[1:]
	}
	room := max(height-len(head)-1, 1)
	v.offset = max(min(v.offset, len(lines)-room), 0)
	shown := append(head, lines[v.offset:min(v.offset+room, len(lines))]...)
	switch {
	case v.typing:
		shown = append(shown, "/"+metric.Visible(v.filter)+"▏")
	case v.filter != "":
		shown = append(shown, "filter: "+metric.Visible(v.filter)+"   Esc removes it   q ends")
	default:
		shown = append(shown, "/ filters   ↑ ↓ scroll   q ends")
	}
	for i, line := range shown {
		shown[i] = clip(line, width)
	}
	return strings.Join(shown, endLine) + clearLine
}

// heading counts the autoscalers by how they are.
func (v *topView) heading() string {
	var counts [explain.RankCalm + 1]int
	for _, row := range v.rows {
		counts[row.Rank]++
	}
	text := fmt.Sprintf("%s   %d autoscalers", v.at.Format(time.TimeOnly), len(v.rows))
	for rank, word := range []string{"broken", "held", "moving"} {
		if counts[rank] > 0 {
			text += fmt.Sprintf(", %d %s", counts[rank], word)
		}
	}
	var silent *unreachable
	switch {
	case errors.As(v.fault, &silent):
		text += "   not fresh: " + metric.Visible(because(v.fault))
	case v.fault != nil:
		text += "   " + metric.Visible(because(v.fault))
	}
	return text
}
