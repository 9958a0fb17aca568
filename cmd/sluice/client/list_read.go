package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/suggest"
)

// inspectAPI is the path of the API group.
const inspectAPI = "/apis/" + inspect.GroupVersion

// listed is a whole list.
type listed struct {
	documents []inspect.Document
	raw       []json.RawMessage // the documents as they came
}

// read gets all pages of a list.
func (o *listOptions) read(ctx context.Context, api *metricsAPI, resource inspect.Resource) (all listed, err error) {
	for token := ""; ; {
		var page struct {
			Metadata inspect.ListMeta  `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		body, err := api.get(ctx, listPath(o.namespace, resource.Name, token))
		if err != nil {
			return all, o.explain(resource, err)
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return all, fmt.Errorf("response of %s: %w", api.base, err)
		}
		for _, raw := range page.Items {
			document, err := decodeDocument(resource.Name, raw)
			if err != nil {
				return all, fmt.Errorf("response of %s: %w", api.base, err)
			}
			all.documents, all.raw = append(all.documents, document), append(all.raw, raw)
		}
		if token = page.Metadata.Continue; token == "" {
			return all, nil
		}
	}
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

func decodeDocument(resource string, raw []byte) (inspect.Document, error) {
	var document inspect.Document
	switch resource {
	case "metrics":
		document = new(inspect.Metric)
	case "objects":
		document = new(inspect.Object)
	case "senders":
		document = new(inspect.Sender)
	case "rejections":
		document = new(inspect.Rejection)
	case "groups":
		document = new(inspect.PushedGroup)
	case "limituses":
		document = new(inspect.Limit)
	case "rules":
		document = new(inspect.Rule)
	case "targets":
		document = new(inspect.Target)
	case "policies":
		document = new(inspect.Policy)
	case "agents":
		document = new(inspect.Agent)
	default:
		document = new(inspect.Autoscaler)
	}
	return document, json.Unmarshal(raw, document)
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
	const path = "/api/v1/namespaces"
	_, err := a.get(ctx, path+"/"+url.PathEscape(namespace))
	var refused *refusal
	if !errors.As(err, &refused) || refused.kind != "namespaces" || refused.code != http.StatusNotFound {
		return nil
	}
	var names []string
	var all struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if body, err := a.get(ctx, path); err == nil && json.Unmarshal(body, &all) == nil {
		for _, one := range all.Items {
			names = append(names, one.Metadata.Name)
		}
	}
	return fmt.Errorf("namespace %q does not exist%s", namespace, suggest.DidYouMean(namespace, names))
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

// printJSON prints the documents as one list.
func (l listed) printJSON(out io.Writer, resource inspect.Resource) error {
	if l.raw == nil {
		l.raw = []json.RawMessage{}
	}
	text, err := json.MarshalIndent(inspect.List[json.RawMessage]{Kind: resource.Kind + "List",
		APIVersion: inspect.GroupVersion, Items: l.raw}, "", "  ")
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}

// printYAML prints the documents as one list in YAML.
func (l listed) printYAML(out io.Writer, resource inspect.Resource) error {
	var document bytes.Buffer
	if err := l.printJSON(&document, resource); err != nil {
		return err
	}
	text, err := yamlOf(document.Bytes())
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// printLine prints the documents as one list, in a line.
func (l listed) printLine(out io.Writer, resource inspect.Resource) error {
	var indented, line bytes.Buffer
	if err := l.printJSON(&indented, resource); err != nil {
		return err
	}
	if err := json.Compact(&line, indented.Bytes()); err != nil {
		return err
	}
	_, err := out.Write(append(line.Bytes(), '\n'))
	return err
}
