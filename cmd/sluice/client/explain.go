package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/spf13/cobra"
)

const explainLong = `Explain says why an autoscaler has the replicas that it has, or what is known of a metric.

Of an autoscaler it prints what it asks for and is answered, each pod's value or the reason why there is none, the arithmetic of the HorizontalPodAutoscaler controller, and each fault that it finds with the change that mends it. It reads with your own rights, as "kubectl" does, and says what it could not read.

A METRIC is a bare name, as in http_requests: how often it is pushed and by whom, on what, how it can be read and who reads it, what rejects it, and in which other namespaces it is.

The exit code is 0 if nothing is wrong, 1 if something is, and 2 for an invalid command line. Of an autoscaler, wrong is what keeps it from working or holds it back; of a metric, that it has no series in the namespace.`

const explainExample = `  sluice explain -n shop hpa/web
  sluice explain -n shop scaledobject/worker
  sluice explain -n shop http_requests
  sluice explain -n shop hpa/web -o json`

// explainOptions is the question of explain.
type explainOptions struct {
	api       apiOptions
	namespace string
	output    command.Output
}

func newExplain() *cobra.Command {
	o := explainOptions{output: command.NewOutput("text", "json", "yaml")}
	cmd := &cobra.Command{
		Use:     "explain hpa/NAME | explain scaledobject/NAME | explain METRIC",
		Short:   "Say why an autoscaler or a metric has its value, or none",
		Long:    explainLong,
		Example: explainExample,
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			o.api.dataDirSet = cmd.Flags().Changed("data-dir")
			if err := command.Usage(append(faults, o.checkSubject(args), o.api.validate())...); err != nil {
				return err
			}
			return o.run(cmd, args[0])
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	command.UnderHeading(flags, "Question", func() {
		flags.StringVarP(&o.namespace, "namespace", "n", "",
			"Namespace; empty: that of the kubeconfig's context, or \"default\".")
	})
	command.UnderHeading(flags, "Output", func() {
		flags.VarP(&o.output, "output", "o", "Format of the output.")
	})
	command.UnderHeading(flags, "Server", func() { o.api.bind(flags) })
	cmd.ValidArgsFunction = o.complete
	completeNamespaces(cmd, &o.api)
	return cmd
}

func (o *explainOptions) run(cmd *cobra.Command, what string) error {
	api, err := o.api.connect()
	if err != nil {
		return err
	}
	g := gatherer{ctx: cmd.Context(), api: api, namespace: cmp.Or(o.namespace, api.namespace, "default"), now: time.Now()}
	kind, name, isObject := strings.Cut(what, "/")
	if !isObject {
		return o.explainMetric(cmd, &g, what)
	}
	switch subjectKind(kind) {
	case "hpa":
	case "scaledobject":
		return o.explainScaledObject(cmd, &g, name)
	case "scaledjob":
		return command.Usage(fmt.Errorf("explain does not know ScaledJobs, of which KEDA makes no autoscaler; see "+
			"\"kubectl describe scaledjob -n %s %s\", and for the metric of each trigger \"%s\"",
			g.namespace, explain.Word(name), explainCommand(g.namespace, "METRIC")))
	default:
		return command.Usage(fmt.Errorf("%q is neither hpa/NAME nor scaledobject/NAME; a metric whose name has a \"/\" is written with \"\\|\"", what))
	}
	facts, err := g.autoscaler(name)
	if err != nil {
		return err
	}
	facts.Unknown = append(facts.Unknown, api.warnings...)
	report := explain.Autoscaler(facts)
	if err := o.print(cmd, report, report.WriteText); err != nil {
		return err
	}
	if report.Broken() {
		return errors.New("the autoscaler doesn't work as it should: see the faults above")
	}
	return nil
}

func (o *explainOptions) explainMetric(cmd *cobra.Command, g *gatherer, name string) error {
	facts, err := g.metric(unescaped(name))
	if err != nil {
		return err
	}
	facts.Unknown = append(facts.Unknown, g.api.warnings...)
	report := explain.Metric(facts)
	if err := o.print(cmd, report, report.WriteText); err != nil {
		return err
	}
	if report.Broken() {
		if hint := g.hintAtAutoscaler(name); hint != "" {
			return errors.New(hint)
		}
		if report.Rule != nil {
			return fmt.Errorf("%s has no value in %s", report.Name, report.Namespace)
		}
		return fmt.Errorf("%s has no series in %s", report.Name, report.Namespace)
	}
	return nil
}

func (o *explainOptions) print(cmd *cobra.Command, report any, text func(io.Writer, time.Time) error) error {
	if o.output.IsDocument() {
		body, err := json.Marshal(report)
		if err != nil {
			return err
		}
		return o.output.Write(cmd.OutOrStdout(), body)
	}
	return text(cmd.OutOrStdout(), time.Now())
}

// fetch decodes the answer to a GET.
func fetch[T any](ctx context.Context, api *metricsAPI, path string) (*T, error) {
	body, err := api.get(ctx, path)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(body, out); err != nil {
		return nil, fmt.Errorf("response of %s%s: %w", redacted(api.base), path, err)
	}
	return out, nil
}
