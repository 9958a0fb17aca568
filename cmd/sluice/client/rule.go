package client

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/cobra"
)

const ruleTestLong = `Test checks a file of MetricRules and ClusterMetricRules, and computes them.

FILE is as "kubectl apply" takes it, or as "kubectl get -o yaml" prints it: documents of other API groups are skipped. "-" is standard input. Without --value and --of, test only checks the file. With --value it computes each rule from the given values, and shows which of them a rename gives another name; with --of it reads the operands from a running server, which need not know the rules: through the metrics APIs, as the Horizontal Pod Autoscaler does.

WHAT is as in "sluice get": <resource>/<name>, as in pods/* or deployments.apps/web, or "external".

The exit code is 1 if a rule is refused, or has no value where one was asked for.`

const ruleTestExample = `  sluice rule test rules.yaml
  sluice rule test rules.yaml --value busy_workers=3 --value total_workers:last=4
  sluice rule test renames.yaml --value http_requests_total=60
  sluice rule test rules.yaml -n shop --of 'pods/*'
  kubectl get metricrules -n shop -o yaml | sluice rule test -`

// newRule makes the command of rules.
func newRule() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rule COMMAND",
		Short: "Test rules that compute metrics from others",
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			if len(args) > 0 {
				faults = append(faults, command.UnknownCommand(cmd, args[0]))
			}
			if err := command.Usage(faults...); err != nil {
				return err
			}
			return cmd.Help()
		}),
	}
	test := newRuleTest()
	test.DisableFlagParsing = true
	test.InitDefaultHelpFlag()
	cmd.AddCommand(test)
	return cmd
}

// ruleTest are the options of "rule test".
type ruleTest struct {
	api       apiOptions
	namespace string
	of        string
	values    []string
}

func newRuleTest() *cobra.Command {
	var o ruleTest
	cmd := &cobra.Command{
		Use:     "test FILE",
		Short:   "Check a file of rules, and compute them",
		Long:    ruleTestLong,
		Example: ruleTestExample,
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			o.api.dataDirSet = cmd.Flags().Changed("data-dir")
			values, more := o.pasted()
			faults = append(faults, more...)
			if len(args) != 1 {
				faults = append(faults, fmt.Errorf("%s; must be one file, or - for standard input, as in: sluice rule test rules.yaml", command.CountArguments(len(args))))
			}
			if o.of != "" && len(values) > 0 {
				faults = append(faults, errors.New("--of and --value are both set; must be one of them"))
			}
			if o.of != "" {
				if _, err := (asked{what: o.of, metric: "m"}).path(); err != nil {
					faults = append(faults, fmt.Errorf("--of: %w", err))
				}
			}
			if err := command.Usage(append(faults, o.api.validate())...); err != nil {
				return err
			}
			return o.run(cmd, args[0], values)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	command.UnderHeading(flags, "Values", func() {
		flags.StringArrayVar(&o.values, "value", nil,
			"Value of an operand, METRIC=NUMBER, with METRIC as in the rule's let; repeatable.")
		flags.StringVar(&o.of, "of", "", "Objects whose metrics are read from a running server, as WHAT of \"sluice get\".")
		flags.StringVarP(&o.namespace, "namespace", "n", "",
			"Namespace of the objects; empty: that of each rule. A ClusterMetricRule has that of the kubeconfig's context, or \"default\".")
	})
	command.UnderHeading(flags, "Server", func() { o.api.bind(flags) })
	return cmd
}

// pasted are the values of --value.
func (o *ruleTest) pasted() (map[string]float64, []error) {
	values, faults := map[string]float64{}, []error(nil)
	for _, value := range o.values {
		name, text, _ := strings.Cut(value, "=")
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || name == "" || math.IsNaN(v) || math.IsInf(v, 0) {
			faults = append(faults, fmt.Errorf("--value is %q; must be METRIC=NUMBER, as in busy_workers=3", value))
			continue
		}
		if first, twice := values[name]; twice {
			faults = append(faults, fmt.Errorf("--value sets %q twice, to %v and to %v; must be set once", name, first, v))
			continue
		}
		values[name] = v
	}
	return values, faults
}

func (o *ruleTest) run(cmd *cobra.Command, file string, values map[string]float64) error {
	text, file, err := readFile(cmd, file)
	if err != nil {
		return err
	}
	documents, err := rule.ParseManifest(file, text, func(place, kind string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: skipped a %s\n", place, kind)
	})
	if err != nil {
		return errors.Join(err, rule.NewSet(documents, labelselector.MatchLabels, nil).Faults())
	}
	if len(documents) == 0 {
		return fmt.Errorf("%s has no rules; must have a %s or %s", file, rule.Kind, rule.ClusterKind)
	}
	set := rule.NewSet(documents, labelselector.MatchLabels, nil)
	read := pastedOperand(set, values)
	if o.of != "" {
		api, err := o.api.connect()
		if err != nil {
			return err
		}
		read = o.operandOf(cmd, api)
	}
	failed := 0
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tMETRIC\tOF\tVALUE")
	for _, v := range set.Verdicts() {
		if !o.show(table, &v, values, read) {
			failed++
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("refused or without a value: %d of %d rules", failed, len(set.Verdicts()))
	}
	return nil
}

// readFile reads a file, or standard input ("-"), and returns the name for messages.
func readFile(cmd *cobra.Command, file string) (text []byte, name string, err error) {
	if file != "-" {
		text, err = os.ReadFile(file)
		return text, file, err
	}
	const input = "standard input"
	if text, err = io.ReadAll(cmd.InOrStdin()); err != nil {
		return nil, "", fmt.Errorf("%s: %w", input, err)
	}
	return text, input, nil
}

// show prints the rows of a rule, and reports whether all is well.
func (o *ruleTest) show(out *tabwriter.Writer, v *rule.Verdict, values map[string]float64,
	read func(*rule.Document, *rule.Operand) ([]metric.Point, error)) bool {
	row := func(name, of, value string) {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", v.Document, metric.Visible(name), metric.Visible(of), metric.Visible(value))
	}
	spec := &v.Document.Spec
	name := spec.Metric
	if spec.Rename != nil {
		name = spec.Rename.From + " to " + spec.Rename.To
	}
	switch {
	case v.Fault != "":
		row(name, "-", "refused: "+v.Fault)
		return false
	case len(values) == 0 && o.of == "":
		row(name, "-", "valid")
		return true
	case spec.Rename != nil:
		showRename(v.Rule, name, values, row)
		return true
	}
	points, err := v.Rule.Compute(o.of == "" || o.of == "external", true,
		func(operand *rule.Operand) ([]metric.Point, error) { return read(v.Document, operand) })
	if err != nil {
		row(name, "-", "none: "+err.Error())
		return false
	}
	for _, p := range points {
		of := p.Object.Name
		if of == "" {
			of = "external"
		}
		row(name, of, string(p.Value.Append(nil)))
	}
	return true
}

// showRename prints the values whose metrics a rename gives another name.
func showRename(r *rule.Rule, name string, values map[string]float64, row func(name, of, value string)) {
	if len(values) == 0 {
		row(name, "-", "valid; try it with --value METRIC=NUMBER")
		return
	}
	some := false
	for _, key := range slices.Sorted(maps.Keys(values)) {
		e := metric.ParseExpression(key)
		renamed, is := r.NewName(e.Name)
		if !is {
			continue
		}
		some, e.Name = true, renamed
		row(e.String(), key, string(metric.Float(values[key]).Append(nil)))
	}
	if !some {
		row(name, "-", "valid; renames none of the metrics of --value")
	}
}

// pastedOperand reads an operand from values. A rename of the set may give a metric the operand's name.
func pastedOperand(set *rule.Set, values map[string]float64) func(*rule.Document,
	*rule.Operand) ([]metric.Point, error) {
	return func(d *rule.Document, operand *rule.Operand) ([]metric.Point, error) {
		e := metric.ParseExpression(operand.Metric)
		keys := []string{operand.Name, operand.Metric, e.Name}
		if pushed := set.PushedName(d.Namespace, e.Name); pushed != "" {
			renamed := e
			renamed.Name = pushed
			keys = append(keys, renamed.String(), pushed)
		}
		for _, key := range keys {
			if v, is := values[key]; is {
				return []metric.Point{{Value: metric.Float(v)}}, nil
			}
		}
		return nil, metric.NotFoundf("no --value %s=NUMBER; there are %s", operand.Metric,
			strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
}

// operandOf reads an operand from a server.
func (o *ruleTest) operandOf(cmd *cobra.Command, api *metricsAPI) func(*rule.Document,
	*rule.Operand) ([]metric.Point, error) {
	return func(d *rule.Document, operand *rule.Operand) ([]metric.Point, error) {
		q := asked{namespace: cmp.Or(o.namespace, d.Namespace, api.namespace), what: o.of, metric: operand.Metric,
			labels: operand.Selector}
		path, err := q.path()
		if err != nil {
			return nil, err
		}
		all, err := api.read(cmd.Context(), path)
		if isAbsent(err) {
			return nil, metric.NotFoundf("%v", err)
		}
		if err != nil {
			return nil, err
		}
		if len(all) == 0 { // Sluice answers 404; another server of the group may not
			return nil, metric.NotFoundf("the answer has no items")
		}
		points := make([]metric.Point, len(all))
		for i, v := range all {
			points[i] = metric.Point{Value: metric.Float(v.number), Time: v.at, Window: v.window}
			if o.of != "external" {
				points[i].Object = metric.Object{Resource: "objects", Name: v.about}
			}
		}
		return points, nil
	}
}
