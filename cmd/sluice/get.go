package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
)

// getOptions are what get was asked for.
type getOptions struct {
	api       apiOptions
	namespace string
	labels    string
	objects   string
	output    string
	watch     bool
	interval  time.Duration
}

const getLong = `Get reads one metric through the standard metrics APIs, as the Horizontal Pod Autoscaler does.

WHAT is <resource>/<name> ("pods/web-1", "pods/*", "deployments.apps/web", "namespaces/shop"), or "external".
METRIC is name[:stat][:window]: "http_requests", "http_requests:count:10s", "latency:p95".

Control characters in labels and names are printed as "\n" or "\x1b"; -o json prints the answer as it came.

VALUE has at most six significant digits unless it is a whole number; -o wide and -o json print it exactly. AGE is
that of the newest sample; what is taken from a window has none, for its timestamp is the window's end.

--watch waits where there is nothing yet. On a terminal it draws a plot and "q" ends it; elsewhere it prints a row
for each value and read, and with -o json a line of JSON for each read.`

const getExample = `  sluice get external http_requests
  sluice get -n shop 'pods/*' http_requests:rate:10s
  sluice get -n shop external jobs_done -l queue=mail -o json
  sluice get -n shop deployments.apps/web latency:p95 --watch`

func newGet() *cobra.Command {
	o := getOptions{}
	cmd := &cobra.Command{
		Use:     "get WHAT METRIC",
		Short:   "Read a metric through the metrics API",
		Long:    getLong,
		Example: getExample,
		RunE: reading(func(cmd *cobra.Command, args []string, faults []error) error {
			o.api.dataDirSet = cmd.Flags().Changed("data-dir")
			if cmd.Flags().Changed("interval") && !o.watch {
				faults = append(faults, errors.New("--interval wants --watch"))
			}
			path, err := o.path(args)
			if err := usage(append(faults, err, o.validate())...); err != nil {
				return err
			}
			return runGet(cmd, o, path)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace to read from (default \"default\", except for cluster-scoped objects)")
	flags.StringVarP(&o.labels, "labels", "l", "", "take only label sets of the metric that this selector picks: queue=mail,zone!=b")
	flags.StringVar(&o.objects, "selector", "", "take only objects whose own Kubernetes labels this selector picks")
	flags.StringVarP(&o.output, "output", "o", "table", "table, wide or json")
	flags.BoolVarP(&o.watch, "watch", "w", false, "read again and again; draws a plot on a terminal, prints rows elsewhere")
	flags.DurationVar(&o.interval, "interval", 2*time.Second, "time between two reads of --watch")
	o.api.bind(flags)
	return cmd
}

func (o *getOptions) validate() error {
	var faults []error
	switch o.output {
	case "table", "wide", "json":
	default:
		faults = append(faults, fmt.Errorf("--output: %q, want table, wide or json", o.output))
	}
	if o.watch && o.interval < 100*time.Millisecond {
		faults = append(faults, fmt.Errorf("--interval: %s, want 100ms or more", o.interval))
	}
	for _, selector := range []struct{ flag, is string }{{"--labels", o.labels}, {"--selector", o.objects}} {
		if _, err := labels.Parse(selector.is); err != nil {
			faults = append(faults, fmt.Errorf("%s: %q is no selector, as in queue=mail,zone!=b: %w", selector.flag, selector.is, err))
		}
	}
	return usage(append(faults, o.api.validate())...)
}

// path is the API path of what was asked for.
func (o *getOptions) path(args []string) (string, error) {
	if len(args) != 2 {
		return "", fmt.Errorf("%s, want WHAT and METRIC, as in: sluice get external http_requests", countArguments(len(args)))
	}
	q := asked{namespace: o.namespace, what: args[0], metric: args[1], labels: o.labels, objects: o.objects}
	return q.path()
}

func runGet(cmd *cobra.Command, o getOptions, path string) error {
	api, err := o.api.connect()
	if err != nil {
		return err
	}
	if o.watch {
		ctx, release := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM) // the cursor has to come back
		defer release()
		if o.output == "json" {
			return watchJSON(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), o.interval, func(ctx context.Context) ([]byte, error) {
				return api.get(ctx, path)
			})
		}
		return watch(ctx, cmd.OutOrStdout(), o.interval, func(ctx context.Context) ([]measured, error) {
			return api.read(ctx, path)
		})
	}
	if o.output == "json" {
		body, err := api.get(cmd.Context(), path)
		if err != nil {
			return err
		}
		return printJSON(cmd, body)
	}
	values, err := api.read(cmd.Context(), path)
	if err != nil {
		return err
	}
	return printTable(cmd.OutOrStdout(), values, o.output == "wide", time.Now())
}

// printJSON prints the API's own answer, indented.
func printJSON(cmd *cobra.Command, body []byte) error {
	raw := json.RawMessage(body)
	indented, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace(string(indented)))
	return err
}
