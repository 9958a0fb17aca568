package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/cobra"
)

// listOptions says what to list, and how to print it.
type listOptions struct {
	api       apiOptions
	namespace string
	all       bool
	output    string
	watch     bool
	// standalone: the server has no cluster.
	standalone bool
	interval   time.Duration
}

const listLong = `List shows what Sluice holds: metrics, the objects that have them, who pushes, what was refused, groups, the use of limits, agents, and the HorizontalPodAutoscalers with Sluice's answer for each of their metrics. It reads the API group inspect.sluice.dev with the rights of the kubeconfig's user.

WHAT is one of the following; default: metrics.

  hpas      HorizontalPodAutoscalers, each metric with its value and target
  metrics   names, with their kind, objects, series and readers
  objects   objects that have series
  senders   pods, accounts and addresses that push, to the replica that answers
  refused   rejected samples by sender, metric and reason, of the replica that answers
  groups    groups of the Pushgateway API
  limits    used and allowed metrics and series, of pods and namespaces
  rules     rules that compute metrics from others, with their last values
  policies  policies of external metrics, with their rules and faults
  agents    agents of nodes that report to the replica that answers, whatever the namespace
  targets   endpoints that pods announce, with their last scrapes, of the replica that answers

Without --namespace, the namespace of the kubeconfig's context applies; if it has none, all namespaces are listed.

The exit code is 1 if something listed is wrong: an autoscaler's metric is missing or held back or its target can't be scaled, the last push to a group was refused, a rule or policy has a fault, an agent is cut off, or an announced endpoint cannot be scraped. It is 1, too, if the list is empty and its namespace doesn't exist, as far as the user may see that.

As "kubectl-sluice" in the PATH, this program is a plugin of kubectl: kubectl sluice list hpas.`

const listExample = `  sluice list
  sluice list hpas -A
  sluice list refused -n shop -o wide
  sluice list limits -n shop --watch
  kubectl sluice list metrics -n shop -o yaml`

// listNames are the lists by the names that users know.
var listNames = map[string]string{
	"hpas": "autoscalers", "metrics": "metrics", "objects": "objects", "senders": "senders", "refused": "rejections",
	"groups": "groups", "limits": "limituses", "rules": "rules", "policies": "policies", "agents": "agents", "targets": "targets",
}

// listAliases are the names and short names of the kinds of policies.
var listAliases = map[string]string{
	"externalmetricpolicies": "policies", "clusterexternalmetricpolicies": "policies",
	"externalmetricpolicy": "policies", "clusterexternalmetricpolicy": "policies", "emp": "policies", "cemp": "policies",
}

// listWords are the names of the lists in the order of the help.
var listWords = []string{"hpas", "metrics", "objects", "senders", "refused", "groups", "limits", "rules", "policies", "agents", "targets"}

func newList() *cobra.Command {
	o := listOptions{output: "table"}
	cmd := &cobra.Command{
		Use:     "list [WHAT]",
		Short:   "List metrics, autoscalers, senders, refusals, limits",
		Long:    listLong,
		Example: listExample,
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			o.api.dataDirSet = cmd.Flags().Changed("data-dir")
			if cmd.Flags().Changed("interval") && !o.watch {
				faults = append(faults, errors.New("--interval is set without --watch; must be both or neither"))
			}
			resource, err := listNamed(args)
			if err := command.Usage(append(faults, err, o.validate())...); err != nil {
				return err
			}
			return o.run(cmd, resource)
		}),
		ValidArgsFunction: cobra.FixedCompletions(listWords, cobra.ShellCompDirectiveNoFileComp),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	command.UnderHeading(flags, "Question", func() {
		flags.StringVarP(&o.namespace, "namespace", "n", "", "Namespace to list.")
		flags.BoolVarP(&o.all, "all-namespaces", "A", false, "List all namespaces, and what is in none.")
	})
	command.UnderHeading(flags, "Output", func() {
		flags.VarP(command.NewChoice(&o.output, []string{"table", "wide", "json", "yaml"}), "output", "o",
			"Format of the output.")
		flags.BoolVarP(&o.watch, "watch", "w", false,
			"List repeatedly: redraws a terminal, prints what changed elsewhere. Ctrl-C ends it.")
		flags.DurationVar(&o.interval, "interval", 2*time.Second, "With --watch, the time between two lists.")
	})
	command.UnderHeading(flags, "Server", func() { o.api.bind(flags) })
	return cmd
}

// listNamed returns the list that the arguments name.
func listNamed(args []string) (inspect.Resource, error) {
	if len(args) == 0 {
		args = []string{"metrics"}
	}
	name, known := listNames[args[0]]
	if alias := listAliases[args[0]]; alias != "" {
		name, known = alias, true
	}
	if !known {
		name = args[0] // as the API calls it
		if word := args[0] + "s"; listNames[word] != "" {
			name = listNames[word]
		}
	}
	resource, known := inspect.ResourceNamed(name)
	switch {
	case !known:
		return resource, fmt.Errorf("%q is no list; must be one of %s%s", args[0], strings.Join(listWords, ", "),
			suggest.DidYouMean(args[0], listWords))
	case len(args) > 1:
		return resource, fmt.Errorf("%s; must be one list, as in: sluice list %s -n shop",
			command.CountArguments(len(args)), args[0])
	}
	return resource, nil
}

func (o *listOptions) validate() error {
	var faults []error
	if o.watch && o.interval < 100*time.Millisecond {
		faults = append(faults, fmt.Errorf("--interval is %v; must be at least 100ms", o.interval))
	}
	if o.all && o.namespace != "" {
		faults = append(faults, errors.New("--all-namespaces and --namespace are both set; must be one of them"))
	}
	return command.Usage(append(faults, o.api.validate())...)
}

func (o *listOptions) run(cmd *cobra.Command, resource inspect.Resource) error {
	api, err := o.api.connect()
	if err != nil {
		return err
	}
	o.standalone = api.standalone
	switch {
	case resource.Cluster():
		o.namespace = ""
	case o.namespace == "" && !o.all:
		o.namespace = api.namespace
	}
	if o.watch {
		ctx, release := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer release()
		return o.repeat(ctx, cmd.OutOrStdout(), api, resource)
	}
	all, err := o.read(cmd.Context(), api, resource)
	if err != nil {
		return err
	}
	if len(all.documents) == 0 && o.namespace != "" {
		if err := api.checkNamespace(cmd.Context(), o.namespace); err != nil {
			return err
		}
	}
	switch o.output {
	case "json":
		err = all.printJSON(cmd.OutOrStdout(), resource)
	case "yaml":
		err = all.printYAML(cmd.OutOrStdout(), resource)
	default:
		err = o.print(cmd.OutOrStdout(), resource, all.documents, time.Now())
		if note := listNotes[resource.Name]; note != "" && len(all.documents) > 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), note)
		}
	}
	if err != nil {
		return err
	}
	for _, warning := range api.warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning:", warning)
	}
	return faultOf(resource, all.documents)
}

// listNotes explain what the columns of a list can't say. They go to the standard error, apart from the
// rows.
var listNotes = map[string]string{
	"limituses": "REJECTED SERIES: attempts to create a series, at the replica that answers, since it started or since " +
		"the pod or namespace last had none. Samples are counted by: sluice list refused",
	"rejections": "SAMPLES: those that the replica that answers has rejected; known lines of a rejected series " +
		"count each time. Rejected series are counted by: sluice list limits",
	"senders": "REJECTED SAMPLES: since the replica that answers started.",
	"agents":  "SAMPLES: those told to the replica that answers. LAG: the age of the agent's newest frame when it came.",
}

// faultOf is an error if something listed is wrong. It names the first.
func faultOf(resource inspect.Resource, all []inspect.Document) error {
	wrong, first := 0, inspect.Document(nil)
	for _, document := range all {
		if document.Fault() != "" {
			if wrong++; wrong == 1 {
				first = document
			}
		}
	}
	if wrong == 0 {
		return nil
	}
	name := strings.TrimPrefix(first.Meta().Namespace+"/", "/") + first.Meta().Name
	return fmt.Errorf("%d of %d %s have a fault; the first: %s%s", wrong, len(all), resource.Name,
		metric.Visible(name+": "+first.Fault()), more(first))
}

// more is the command that says more about a fault; empty: there is none.
func more(document inspect.Document) string {
	a, is := document.(*inspect.Autoscaler)
	if !is {
		return ""
	}
	return metric.Visible(fmt.Sprintf("; why, and what mends it: sluice explain -n %s hpa/%s", a.Namespace, a.Name))
}

// repeat lists until ctx ends.
func (o *listOptions) repeat(ctx context.Context, out io.Writer, api *metricsAPI, resource inspect.Resource) error {
	show := o.shower(out, resource)
	return repeat(ctx, o.interval, func(first bool) error {
		all, err := o.read(ctx, api, resource)
		if ctx.Err() != nil {
			return nil
		}
		if first && err != nil {
			return err
		}
		return show(time.Now(), all, err)
	})
}
