package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// getOptions is the question of get, and how to answer it.
type getOptions struct {
	api       apiOptions
	namespace string
	labels    string // selector of the metric's label sets
	objects   string // selector of the objects' Kubernetes labels
	output    command.Output
	sort      command.Order
	noHeaders bool
	watch     bool
	interval  time.Duration
}

const getLong = `Get reads one metric through the standard metrics APIs, as the Horizontal Pod Autoscaler does.

WHAT is <resource>/<name>, as in pods/web-1, pods/*, deployments.apps/web or namespaces/shop, or "external". kubectl's short names work, as in deploy/web. METRIC is name[:stat][:window], as in http_requests, http_requests:count:10s or latency:p95.

VALUE has six significant digits unless it is a whole number; -o wide and -o json print it exactly, and -o wide says its stat and its moment. AGE is the age of the newest sample. A windowed value has none, because its timestamp is the window's end. Control characters in labels and names are printed as \n or \x1b; -o json prints the response unchanged.

--watch waits until there is a value. On a terminal it draws a plot, and "q" ends it; elsewhere it prints a row per value and read, and with -o json a line of JSON per read.`

const getExample = `  sluice get external http_requests
  sluice get -n shop 'pods/*' http_requests:rate:10s
  sluice get -n shop external jobs_done -l queue=mail -o json
  sluice get -n shop deploy/web latency:p95 --watch`

func newGet() *cobra.Command {
	o := getOptions{output: command.NewOutput("table", "wide", "json", "yaml", "name")}
	cmd := &cobra.Command{
		Use:     "get WHAT METRIC",
		Short:   "Read a metric through the metrics API",
		Long:    getLong,
		Example: getExample,
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			o.api.dataDirSet = cmd.Flags().Changed("data-dir")
			if cmd.Flags().Changed("interval") && !o.watch {
				faults = append(faults, errors.New("--interval is set without --watch; must be both or neither"))
			}
			q, err := o.asked(args)
			if err := command.Usage(append(faults, err, o.validate())...); err != nil {
				return err
			}
			return withRight(withSuggestion(runGet(cmd, &o, &q), &q))
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	command.UnderHeading(flags, "Question", func() {
		flags.StringVarP(&o.namespace, "namespace", "n", "",
			"Namespace to read from; empty: that of the kubeconfig's context, or \"default\". Cluster-scoped objects have none.")
		flags.StringVarP(&o.labels, "labels", "l", "", "Selector of the metric's label sets, as in queue=mail,zone!=b.")
		flags.StringVar(&o.objects, "selector", "", "Selector of the objects by their own Kubernetes labels, as in app=web.")
	})
	command.UnderHeading(flags, "Output", func() {
		flags.VarP(&o.output, "output", "o", "Format of the output.")
		flags.Var(&o.sort, "sort-by", "JSONPath of the value of an item to sort by, as in .value or .timestamp.")
		flags.BoolVar(&o.noHeaders, "no-headers", false, "Print a table without its headers.")
		flags.BoolVarP(&o.watch, "watch", "w", false, "Read repeatedly: draws a plot on a terminal, prints rows elsewhere.")
		flags.DurationVar(&o.interval, "interval", 2*time.Second, "With --watch, the time between two reads.")
	})
	command.UnderHeading(flags, "Server", func() { o.api.bind(flags) })
	cmd.ValidArgsFunction = o.complete
	completeNamespaces(cmd, &o.api)
	return cmd
}

func (o *getOptions) validate() error {
	var faults []error
	if o.watch && o.interval < 100*time.Millisecond {
		faults = append(faults, fmt.Errorf("--interval is %v; must be at least 100ms", o.interval))
	}
	for _, selector := range []struct{ flag, is string }{{"--labels", o.labels}, {"--selector", o.objects}} {
		if _, err := labels.Parse(selector.is); err != nil {
			faults = append(faults, fmt.Errorf("%s is %q; must be a selector, as in queue=mail,zone!=b: %w",
				selector.flag, selector.is, err))
		}
	}
	if o.watch && (o.output.Word == "yaml" || o.output.Word == "name" || o.output.Word == command.JSONPath || o.sort.IsSet()) {
		faults = append(faults, errors.New("--watch is set with --output or --sort-by; must be table, wide or json, and unsorted"))
	}
	return command.Usage(append(faults, o.api.validate())...)
}

// asked is the question that the arguments make, without the namespace of a kubeconfig's context.
func (o *getOptions) asked(args []string) (asked, error) {
	if len(args) != 2 {
		example := "external http_requests"
		if len(args) == 3 && kindOf(args[0]).known { // "get deploy web METRIC", as kubectl has it
			example = kindOf(args[0]).canonical + "/" + args[1] + " " + args[2]
		}
		return asked{}, fmt.Errorf("%s; must be WHAT and METRIC, as in: sluice get %s",
			command.CountArguments(len(args)), example)
	}
	q := asked{namespace: o.namespace, what: args[0], metric: args[1], labels: o.labels, objects: o.objects}
	_, err := q.path()
	return q, err
}

// withSuggestion adds, where a server knows no such resource or metric, the nearest one.
func withSuggestion(err error, q *asked) error {
	if !isAbsent(err) {
		return err
	}
	resource, _, _ := strings.Cut(q.what, "/")
	text := ""
	if q.what != "external" {
		text = suggestKind(resource)
	}
	return fmt.Errorf("%w%s", err, cmp.Or(text, q.suggestMetric(err)))
}

// suggestMetric continues the error of a metric that was never pushed with the nearest name, as far as
// metrics may be listed.
func (q *asked) suggestMetric(err error) string {
	if q.api == nil || !strings.HasSuffix(err.Error(), "none was ever received") {
		return ""
	}
	name := metric.ParseExpression(unescaped(q.metric)).Name
	g := gatherer{ctx: context.Background(), api: q.api, namespace: cmp.Or(q.namespace, "default")}
	here, _ := pages[inspect.Metric](&g, "metrics", g.namespace)
	var names []string
	for _, m := range g.named(name, here) {
		if m.Name != name {
			names = append(names, m.Name)
		}
	}
	return suggest.DidYouMean(name, names)
}

// metricsReader is the ClusterRole of the chart that allows reading metrics.
const metricsReader = "sluice-reader"

// withRight adds, where RBAC denies a metric, the command that grants the right. A policy's denial is meant.
func withRight(err error) error {
	var refused *refusal
	if !errors.As(err, &refused) || refused.code != http.StatusForbidden || !forbiddenUser.MatchString(refused.message) {
		return err
	}
	binding := "clusterrolebinding metrics-reader"
	if found := forbiddenNamespace.FindStringSubmatch(refused.message); found != nil {
		binding = "rolebinding metrics-reader -n " + found[1]
	}
	return fmt.Errorf("%w\nto allow it: kubectl create %s --clusterrole=%s %s", err, binding, metricsReader,
		subjectOf(refused.message))
}

// forbiddenNamespace finds the namespace in the API server's message.
var forbiddenNamespace = regexp.MustCompile(`in the namespace "([^"]*)"`)

func runGet(cmd *cobra.Command, o *getOptions, q *asked) error {
	api, err := o.api.connect()
	if err != nil {
		return err
	}
	q.api = api
	q.namespace = cmp.Or(q.namespace, api.namespace)
	path, err := q.path()
	if err != nil {
		return err
	}
	if o.watch {
		ctx, release := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM) // the terminal must be restored
		defer release()
		if o.output.Word == "json" {
			return watchJSON(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), o.interval, func(ctx context.Context) ([]byte, error) {
				return api.get(ctx, path)
			})
		}
		return watch(ctx, cmd.OutOrStdout(), o.interval, func(ctx context.Context) ([]measured, error) {
			return api.read(ctx, path)
		})
	}
	body, err := api.get(cmd.Context(), path)
	if err != nil {
		return err
	}
	if body, err = o.sort.Sorted(body); err != nil {
		return err
	}
	if o.output.IsDocument() {
		return o.output.Write(cmd.OutOrStdout(), body)
	}
	values, err := api.decode(path, body)
	if err != nil {
		return err
	}
	return o.print(cmd, q, values)
}

// print prints values for people, or their names.
func (o *getOptions) print(cmd *cobra.Command, q *asked, values []measured) error {
	if !o.sort.IsSet() {
		byObject(values)
	}
	switch o.output.Word {
	case "name":
		for _, v := range values {
			name := v.about
			if q.what == "external" {
				name = "metric/" + v.metric
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), metric.Visible(name)); err != nil {
				return err
			}
		}
		return nil
	case "wide":
		return o.printTable(cmd.OutOrStdout(), values, q.stat(cmd.Context()), time.Now())
	}
	return o.printTable(cmd.OutOrStdout(), values, "", time.Now())
}

// stat is the stat of the answer: the one that was asked for, or that of the bare name, as far as metrics
// may be listed. "-": it is unknown.
func (q *asked) stat(ctx context.Context) string {
	e := metric.ParseExpression(unescaped(q.metric))
	if e.Stat != metric.NoStat {
		return e.Stat.String()
	}
	resource := ""
	if q.what != "external" {
		resource, _, _ = strings.Cut(q.what, "/")
		resource = cmp.Or(kindOf(resource).canonical, resource)
	}
	g := gatherer{ctx: ctx, api: q.api, namespace: cmp.Or(q.namespace, "default")}
	for _, m := range g.named(e.Name, nil) {
		if kind, known := metric.ParseKind(m.Kind); known && m.Name == e.Name && m.Resource == resource {
			return kind.DefaultStat().String()
		}
	}
	return "-"
}

// The API groups that get reads. The Horizontal Pod Autoscaler prefers v1beta2.
const (
	CustomAPI   = "/apis/custom.metrics.k8s.io/v1beta2"
	ExternalAPI = "/apis/external.metrics.k8s.io/v1beta1"
)

// asked is one question to a metrics API.
type asked struct {
	namespace       string
	what, metric    string
	labels, objects string      // selectors; empty: all
	api             *metricsAPI // that answers; nil: not connected yet
}

// path is the path and query of the question. A "/" in the metric's name is written "\|".
func (q asked) path() (string, error) {
	if q.metric == "" {
		return "", errors.New("METRIC is empty; must be name[:stat][:window]")
	}
	namespace := q.namespace
	if namespace == "" {
		namespace = "default"
	}
	metric := url.PathEscape(strings.ReplaceAll(q.metric, "/", `\|`))
	if q.what == "external" {
		if q.objects != "" {
			return "", errors.New("--selector picks objects, which external metrics have none of; must be --labels")
		}
		return ExternalAPI + "/namespaces/" + url.PathEscape(namespace) + "/" + metric +
			query("labelSelector", q.labels), nil
	}
	resource, name, err := splitObject(q.what, ", or external")
	if err != nil {
		return "", fmt.Errorf("WHAT %w", err)
	}
	k := kindOf(resource)
	selectors := query("labelSelector", q.objects, "metricLabelSelector", q.labels)
	name = url.PathEscape(name)
	switch {
	case k.canonical == "namespaces":
		return CustomAPI + "/namespaces/" + name + "/metrics/" + metric + selectors, nil
	case !k.namespaced:
		return CustomAPI + "/" + url.PathEscape(k.resource) + "/" + name + "/" + metric + selectors, nil
	}
	return CustomAPI + "/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(k.resource) + "/" + name + "/" +
		metric + selectors, nil
}

// query is the URL query of the pairs that have a value.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// printTable prints values as kubectl does. With a stat, the table is wide: it adds that, the exact quantity
// and the timestamp.
func (o *getOptions) printTable(out io.Writer, values []measured, stat string, now time.Time) error {
	if len(values) == 0 {
		_, err := fmt.Fprintln(out, "no values")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	if !o.noHeaders {
		columns := "OBJECT/LABELS\tMETRIC\tVALUE\tWINDOW\tAGE"
		if stat != "" {
			columns += "\tSTAT\tQUANTITY\tTIMESTAMP"
		}
		fmt.Fprintln(table, columns)
	}
	for _, v := range values {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s", metric.Visible(v.about), metric.Visible(v.metric), v.print(),
			printWindow(v.window), v.age(now))
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
