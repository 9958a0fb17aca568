package client

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/spf13/cobra"
)

// completePatience bounds what a shell waits for a server.
const completePatience = 2 * time.Second

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completer asks the server for the names that a shell completes. Without an answer it has none.
type completer struct {
	ctx       context.Context
	api       *metricsAPI
	namespace string
}

// newCompleter asks about a namespace; empty: that of the kubeconfig's context, else the fallback.
func newCompleter(cmd *cobra.Command, o apiOptions, namespace, fallback string) (c completer, ok bool) {
	o.timeout = min(o.timeout, completePatience)
	o.dataDirSet = cmd.Flags().Changed("data-dir")
	api, err := o.connect()
	if err != nil {
		return c, false
	}
	if namespace == "" {
		namespace = api.namespace
	}
	if namespace == "" {
		namespace = fallback
	}
	return completer{cmd.Context(), api, namespace}, true
}

// documents are those of a list's first page.
func (c completer) documents(resource string) []inspect.Document {
	of, _ := inspect.ResourceNamed(resource)
	page, _, err := c.api.listPage(c.ctx, c.namespace, of, "")
	if err != nil {
		return nil
	}
	return page.documents
}

// names are those of a list, each once, behind a prefix.
func (c completer) names(resource, prefix string) (names []string) {
	for _, document := range c.documents(resource) {
		names = append(names, prefix+document.Meta().Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// complete completes the list, and then the names in it.
func (o *listOptions) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return listWords, noFiles
	}
	resource, err := listNamed(args)
	if err != nil {
		return nil, noFiles
	}
	c, ok := newCompleter(cmd, o.api, o.namespace, "")
	if !ok {
		return nil, noFiles
	}
	if o.all || resource.Cluster() {
		c.namespace = ""
	}
	return c.names(resource.Name, ""), noFiles
}

// complete completes an object, or external, and then a metric.
func (o *getOptions) complete(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, noFiles
	}
	kind, _, isObject := strings.Cut(begun, "/")
	if len(args) == 0 && !isObject {
		words := []string{"external"}
		for _, resource := range shortNames {
			words = append(words, resource+"/")
		}
		slices.Sort(words)
		return words, noFiles | cobra.ShellCompDirectiveNoSpace
	}
	c, ok := newCompleter(cmd, o.api, o.namespace, "default")
	if !ok {
		return nil, noFiles
	}
	if len(args) == 1 {
		kind, _, _ = strings.Cut(args[0], "/")
		return c.metricsOf(kindOf(kind).canonical), noFiles
	}
	var names []string
	for _, document := range c.documents("objects") {
		if object := document.(*inspect.Object); object.Resource == kindOf(kind).canonical {
			names = append(names, kind+"/"+object.Name)
		}
	}
	return names, noFiles
}

// metricsOf are the metrics of objects of a kind, and the external ones without one.
func (c completer) metricsOf(resource string) (names []string) {
	for _, document := range c.documents("metrics") {
		if m := document.(*inspect.Metric); m.Resource == resource {
			names = append(names, m.Name)
		}
	}
	return names
}

// complete completes an autoscaler or a metric.
func (o *explainOptions) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	c, ok := newCompleter(cmd, o.api, o.namespace, "default")
	if !ok {
		return nil, noFiles
	}
	return append(c.names("autoscalers", "hpa/"), c.names("metrics", "")...), noFiles
}

// completeNamespaces completes --namespace: all that the user may see, or else those that have metrics.
func completeNamespaces(cmd *cobra.Command, o *apiOptions) {
	_ = cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, ok := newCompleter(cmd, *o, "", "")
		if !ok {
			return nil, noFiles
		}
		if names := c.api.namespaces(cmd.Context()); len(names) > 0 {
			return names, noFiles
		}
		c.namespace = ""
		var names []string
		for _, document := range c.documents("metrics") {
			names = append(names, document.Meta().Namespace)
		}
		slices.Sort(names)
		return slices.Compact(names), noFiles
	})
}
