package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
)

// inspectAPI is the path of the API group.
const inspectAPI = "/apis/" + inspect.GroupVersion

// listed is a whole list.
type listed struct {
	documents []inspect.Document
	raw       []json.RawMessage  // the documents as they came
	all       []inspect.Document // of which documents were picked
}

// read gets all pages of a list.
func (o *listOptions) read(ctx context.Context, api *metricsAPI, resource inspect.Resource) (all listed, err error) {
	for token := ""; ; {
		page, next, err := api.listPage(ctx, o.namespace, resource, token)
		if err != nil {
			return all, o.explain(resource, err)
		}
		all.documents, all.raw = append(all.documents, page.documents...), append(all.raw, page.raw...)
		if token = next; token == "" {
			return o.pick(all)
		}
	}
}

// listPage gets a page of a list, and the token of the next one; empty: it is the last.
func (a *metricsAPI) listPage(ctx context.Context, namespace string, of inspect.Resource, token string) (l listed, next string, err error) {
	var page struct {
		Metadata inspect.ListMeta  `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	body, err := a.get(ctx, listPath(namespace, of.Name, token))
	if err != nil {
		return l, "", err
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return l, "", fmt.Errorf("response of %s: %w", redacted(a.base), err)
	}
	for _, raw := range page.Items {
		document := of.New()
		if err := json.Unmarshal(raw, document); err != nil {
			return l, "", fmt.Errorf("response of %s: %w", redacted(a.base), err)
		}
		l.documents, l.raw = append(l.documents, document), append(l.raw, raw)
	}
	return l, page.Metadata.Continue, nil
}

// listPath is the path of a page; empty namespace: of all.
func listPath(namespace, resource, token string) string {
	path := inspectAPI
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	query := url.Values{"limit": {fmt.Sprint(inspect.MaxMost)}}
	if token != "" {
		query.Set("continue", token)
	}
	return path + "/" + resource + "?" + query.Encode()
}

// explain adds what helps to a refusal of the API server.
func (o *listOptions) explain(resource inspect.Resource, err error) error {
	var refused *refusal
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.code == http.StatusForbidden:
		return fmt.Errorf("%w\n%s", err, o.rightTo(resource, refused.message))
	case refused.code == http.StatusNotFound && refused.unregistered:
		return fmt.Errorf("%w; must have APIService %s.%s, which Sluice's chart makes", err, inspect.Version, inspect.Group)
	case refused.code == http.StatusNotFound:
		return fmt.Errorf("%w: the API group %s is not registered here; must have APIService %s.%s, which Sluice's chart makes", err,
			inspect.Group, inspect.Version, inspect.Group)
	case refused.code == http.StatusServiceUnavailable && refused.kind == "": // otherwise Sluice itself answers
		return fmt.Errorf("%w: the API server cannot reach Sluice, or Sluice is not ready; see: kubectl describe apiservice %s.%s", err,
			inspect.Version, inspect.Group)
	}
	return err
}

// checkNamespace returns an error if a namespace doesn't exist, with the name that may be meant. A user
// who may not see it, and a standalone Sluice, which has none, get no error.
func (a *metricsAPI) checkNamespace(ctx context.Context, namespace string) error {
	_, err := a.get(ctx, namespacesAPI+"/"+url.PathEscape(namespace))
	var refused *refusal
	if !errors.As(err, &refused) || refused.kind != "namespaces" || refused.code != http.StatusNotFound {
		return nil
	}
	return fmt.Errorf("namespace %q does not exist%s", namespace, suggest.DidYouMean(namespace, a.namespaces(ctx)))
}

const namespacesAPI = "/api/v1/namespaces"

// namespaces are all of the cluster; nil if the user may not see them, or there is no cluster.
func (a *metricsAPI) namespaces(ctx context.Context) (names []string) {
	var all struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if body, err := a.get(ctx, namespacesAPI); err == nil && json.Unmarshal(body, &all) == nil {
		for _, namespace := range all.Items {
			names = append(names, namespace.Metadata.Name)
		}
	}
	return names
}

// forbiddenUser finds the user in the API server's message.
var forbiddenUser = regexp.MustCompile(`User "([^"]*)"`)

// rightTo is the command that grants the right to a list.
func (o *listOptions) rightTo(resource inspect.Resource, message string) string {
	binding := "clusterrolebinding sluice-inspect-reader"
	if o.namespace != "" {
		binding = "rolebinding sluice-inspect-reader -n " + o.namespace
	}
	text := fmt.Sprintf("to allow it: kubectl create %s --clusterrole=%s %s", binding, inspectReader, subjectOf(message))
	if o.namespace == "" && !resource.Cluster() {
		text += fmt.Sprintf("\nor list a namespace of yours: sluice list %s -n NAMESPACE", userName(resource))
	}
	return text
}

// subjectOf is the flag of a binding for the user that the API server's message names.
func subjectOf(message string) string {
	found := forbiddenUser.FindStringSubmatch(message)
	if found == nil {
		return "--user=USER"
	}
	if account, ok := strings.CutPrefix(found[1], "system:serviceaccount:"); ok {
		return "--serviceaccount=" + explain.Word(account)
	}
	return "--user=" + explain.Word(found[1])
}

// inspectReader is the ClusterRole of the chart that allows lists.
const inspectReader = "sluice-inspect-reader"

// userName is the name of a list in commands.
func userName(r inspect.Resource) string {
	for name, resource := range listNames {
		if resource == r.Name {
			return name
		}
	}
	return r.Name
}

// document is the documents as one list; of one name, the document itself where there is only one.
func (l listed) document(resource inspect.Resource, names []string) ([]byte, error) {
	if len(names) == 1 && len(l.raw) == 1 {
		return l.raw[0], nil
	}
	if l.raw == nil {
		l.raw = []json.RawMessage{}
	}
	return json.Marshal(inspect.List[json.RawMessage]{
		Kind: resource.Kind + "List", APIVersion: inspect.GroupVersion, Items: l.raw,
	})
}

func (o *listOptions) printDocument(out io.Writer, resource inspect.Resource, all listed) error {
	document, err := all.document(resource, o.names)
	if err != nil {
		return err
	}
	return o.output.Write(out, document)
}

// printNames prints what explain and list take: hpa/web, metric/jobs_waiting.
func printNames(out io.Writer, resource inspect.Resource, all listed) error {
	kind := resource.Singular
	if name := userName(resource); name != resource.Name {
		kind = strings.TrimSuffix(name, "s")
	}
	for _, document := range all.documents {
		if _, err := fmt.Fprintf(out, "%s/%s\n", kind, metric.Visible(document.Meta().Name)); err != nil {
			return err
		}
	}
	return nil
}

// pick leaves the documents of the names and labels that are asked for, in the order that is asked for.
func (o *listOptions) pick(all listed) (picked listed, err error) {
	selector, err := labels.Parse(o.labels)
	if err != nil {
		return picked, err
	}
	for i, document := range all.documents {
		if len(o.names) > 0 && !slices.Contains(o.names, document.Meta().Name) {
			continue
		}
		if group, is := document.(*inspect.PushedGroup); is && !selector.Matches(labels.Set(group.Labels)) {
			continue
		}
		picked.documents, picked.raw = append(picked.documents, document), append(picked.raw, all.raw[i])
	}
	if picked.all = all.documents; !o.sort.IsSet() {
		return picked, nil
	}
	places, err := o.sort.Places(picked.raw)
	if err != nil {
		return picked, err
	}
	sorted := listed{all: picked.all}
	for _, i := range places {
		sorted.documents, sorted.raw = append(sorted.documents, picked.documents[i]), append(sorted.raw, picked.raw[i])
	}
	return sorted, nil
}

// missing is an error about the names of which nothing is listed, with those that may be meant.
func (o *listOptions) missing(resource inspect.Resource, picked listed) error {
	var faults []error
	for _, name := range o.names {
		if slices.ContainsFunc(picked.documents, func(d inspect.Document) bool { return d.Meta().Name == name }) {
			continue
		}
		var known []string
		for _, document := range picked.all {
			known = append(known, document.Meta().Name)
		}
		where := ""
		if o.namespace != "" {
			where = " in namespace " + o.namespace
		}
		faults = append(faults, fmt.Errorf("%s %q is not listed%s%s", resource.Singular, name, where,
			suggest.DidYouMean(name, known)))
	}
	return errors.Join(faults...)
}
