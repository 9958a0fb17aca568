package client

import (
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/labels"
)

// listOptions says what to list, and how to print it.
type listOptions struct {
	api       apiOptions
	namespace string
	all       bool
	labels    string // selector of the labels of groups
	names     []string
	output    command.Output
	sort      command.Order
	noHeaders bool
	watch     bool
	events    bool // with watch: printed
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
  sluice list metrics -n shop --sort-by .series
  sluice list metrics jobs_waiting -n shop -o yaml
  sluice list groups -n shop -l instance=batch-1
  sluice list hpas -o jsonpath='{.items[*].name}'
  sluice list limits -n shop -w`

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
	o := listOptions{output: command.NewOutput("table", "wide", "json", "yaml", "name")}
	cmd := &cobra.Command{
		Use:     "list [WHAT [NAME ...]]",
		Short:   "List metrics, autoscalers, senders, refusals, limits",
		Long:    listLong,
		Example: listExample,
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			o.api.dataDirSet = cmd.Flags().Changed("data-dir")
			if cmd.Flags().Changed("interval") && !o.watch {
				faults = append(faults, errors.New("--interval is set without --watch; must be both or neither"))
			}
			resource, err := listNamed(args)
			o.names = args[min(1, len(args)):]
			if err := command.Usage(append(faults, err, o.validate(resource))...); err != nil {
				return err
			}
			return o.run(cmd, resource)
		}),
		ValidArgsFunction: o.complete,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	command.UnderHeading(flags, "Question", func() {
		flags.StringVarP(&o.namespace, "namespace", "n", "", "Namespace to list.")
		flags.BoolVarP(&o.all, "all-namespaces", "A", false, "List all namespaces, and what is in none.")
		flags.StringVarP(&o.labels, "selector", "l", "", "Selector of the labels of groups, as in instance=batch-1.")
	})
	command.UnderHeading(flags, "Output", func() {
		flags.VarP(&o.output, "output", "o", "Format of the output.")
		flags.Var(&o.sort, "sort-by", "JSONPath of the value of an item to sort by, as in .series or {.name}.")
		flags.BoolVar(&o.noHeaders, "no-headers", false, "Print a table without its headers.")
		flags.BoolVarP(&o.watch, "watch", "w", false,
			"List, then print a row for each change, as kubectl does, until Ctrl-C. sluice top redraws a terminal.")
		flags.BoolVar(&o.events, "output-watch-events", false, "With --watch, print ADDED, MODIFIED or DELETED with each row or document.")
		flags.DurationVar(&o.interval, "interval", 2*time.Second, "With --watch, the time between two lists.")
	})
	command.UnderHeading(flags, "Server", func() { o.api.bind(flags) })
	completeNamespaces(cmd, &o.api)
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
	if !known {
		return resource, fmt.Errorf("%q is no list; must be one of %s%s", args[0], strings.Join(listWords, ", "),
			suggest.DidYouMean(args[0], listWords))
	}
	return resource, nil
}

func (o *listOptions) validate(list inspect.Resource) error {
	var faults []error
	if _, err := labels.Parse(o.labels); err != nil {
		faults = append(faults, fmt.Errorf("--selector is %q; must be a selector, as in instance=batch-1: %w", o.labels, err))
	} else if o.labels != "" && list.Name != "groups" && list.Name != "" {
		faults = append(faults, fmt.Errorf("--selector is set; must be with: list groups, since no %s have labels", userName(list)))
	}
	if o.events && (!o.watch || o.output.Word == "name") {
		faults = append(faults, errors.New("--output-watch-events is set; must be with --watch, and without -o name"))
	}
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
		return o.watchList(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), api, resource)
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
	switch {
	case o.output.IsDocument():
		err = o.printDocument(cmd.OutOrStdout(), resource, all)
	case o.output.Word == "name":
		err = printNames(cmd.OutOrStdout(), resource, all)
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
	return errors.Join(o.missing(resource, all), faultOf(resource, all.documents))
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
