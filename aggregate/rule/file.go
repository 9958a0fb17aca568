package rule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"go.yaml.in/yaml/v3"
)

// Parse reads the rules of a file: one YAML document for each rule, in the form of the custom
// resources. Without a namespace, a MetricRule is in the default namespace. The error has the first
// faults of the form, one a line; Set.Faults has those of the rules.
func Parse(name string, text []byte) ([]Document, error) { return parse(name, text, nil) }

// ParseManifest is Parse for a file that "kubectl apply" takes, or that kubectl prints: documents of other
// kinds may stand between the rules, and lists are read. It calls skip for each document that is no rule,
// with its place and kind.
func ParseManifest(name string, text []byte, skip func(place, kind string)) ([]Document, error) {
	return parse(name, text, skip)
}

// parser reads a file.
type parser struct {
	file   string
	skip   func(place, kind string) // nil: all documents must be rules
	all    []Document
	faults []error
	lines  map[place]int // of the rules
}

func parse(name string, text []byte, skip func(place, kind string)) ([]Document, error) {
	p := parser{file: name, skip: skip, lines: map[place]int{}}
	err := p.read(text)
	return p.all, err
}

func (p *parser) read(text []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return joinFaults(p.faults)
		}
		if err != nil {
			p.all = nil
			return joinFaults(append(p.faults, fmt.Errorf("%s: %s", p.file, strings.TrimPrefix(err.Error(), "yaml: "))))
		}
		if len(node.Content) > 0 && node.Content[0].Tag != "!!null" {
			p.object(node.Content[0])
		}
	}
}

// object reads a rule. Of manifests, it may be a list or another object.
func (p *parser) object(node *yaml.Node) {
	if p.skip != nil && p.isList(node) {
		return
	}
	if kind := foreign(node); kind != "" {
		if p.skip != nil {
			p.skip(fmt.Sprintf("%s:%d", p.file, node.Line), kind)
		} else {
			p.faults = append(p.faults, fmt.Errorf("%s:%d: the document is a %s; must be a %s or %s of %s", p.file, node.Line,
				kind, Kind, ClusterKind, APIVersion))
		}
		return
	}
	d, more := parseDocument(node, p.skip != nil)
	for _, one := range more {
		p.faults = append(p.faults, fmt.Errorf("%s:%s", p.file, one))
	}
	if len(more) > 0 {
		return
	}
	at := place{d.Namespace, d.Name}
	if first, twice := p.lines[at]; twice {
		p.faults = append(p.faults, fmt.Errorf("%s:%d: %s is already in line %d", p.file, node.Line, &d, first))
		return
	}
	p.lines[at] = node.Line
	p.all = append(p.all, d)
}

// isList reads the items of a list, and reports whether the document is one.
func (p *parser) isList(node *yaml.Node) bool {
	var of struct {
		Kind  string    `yaml:"kind"`
		Items yaml.Node `yaml:"items"`
	}
	if node.Decode(&of) != nil || of.Kind != "List" && of.Kind != Kind+"List" && of.Kind != ClusterKind+"List" {
		return false
	}
	if of.Items.Kind != yaml.SequenceNode {
		p.faults = append(p.faults, fmt.Errorf("%s:%d: kind is %q; its items are %s; must be a list", p.file, node.Line,
			of.Kind, formOf(&of.Items)))
		return true
	}
	for _, n := range of.Items.Content {
		if n.Kind == yaml.AliasNode { // of a list that has it, without end
			p.faults = append(p.faults, fmt.Errorf("%s:%d: an item is the alias %q; must be an object", p.file, n.Line, "*"+n.Value))
			continue
		}
		p.object(n)
	}
	return true
}

// formOf says which form a field has.
func formOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	}
	return "a text"
}

// written is the form of a document.
type written struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name        string            `yaml:"name"`
		Namespace   string            `yaml:"namespace"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	} `yaml:"metadata"`
	Spec Spec `yaml:"spec"`
}

// otherKinds are those of the group that are no rules.
var otherKinds = []string{"ExternalMetricPolicy", "ClusterExternalMetricPolicy"}

// foreign is the kind of a document that is no rule, as in "HorizontalPodAutoscaler of
// autoscaling/v2"; empty: the document may be meant for a rule.
func foreign(node *yaml.Node) string {
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	group, _, _ := strings.Cut(APIVersion, "/")
	if node.Decode(&head) != nil || head.APIVersion == "" || head.Kind == "" || head.Kind == Kind ||
		head.Kind == ClusterKind ||
		strings.HasPrefix(head.APIVersion, group+"/") && !slices.Contains(otherKinds, head.Kind) {
		return ""
	}
	return metric.Visible(metric.Truncate(head.Kind, maxName) + " of " + metric.Truncate(head.APIVersion, maxName))
}

// parseDocument reads one document strictly, apart from the fields that an API server adds. Its faults
// begin with the line.
func parseDocument(node *yaml.Node, fromServer bool) (d Document, faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%d: ", node.Line)+fmt.Sprintf(format, args...))
	}
	if faults = wrongForms(node); len(faults) > 0 {
		return d, faults
	}
	var w written
	if err := node.Decode(&w); err != nil {
		var typed *yaml.TypeError
		if errors.As(err, &typed) {
			for _, e := range typed.Errors {
				faults = append(faults, strings.TrimPrefix(e, "line "))
			}
			return d, faults
		}
		fault("%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return d, faults
	}
	faults = append(faults, unknownFields(node, fromServer)...)
	if w.APIVersion != APIVersion {
		fault("apiVersion is %q; must be %s", w.APIVersion, APIVersion)
	}
	switch name := w.Metadata.Name; {
	case name == "":
		fault("metadata.name is empty; must name the rule")
	case len(name) > maxName || !ruleName.MatchString(name):
		fault("metadata.name is %q; must be 1 to %d of a-z, 0-9, - and ., as Kubernetes names objects",
			metric.Truncate(name, maxName), maxName)
	}
	if in := w.Metadata.Namespace; in != "" && (len(in) > maxNamespace || !namespaceName.MatchString(in)) {
		fault("metadata.namespace is %q; must be 1 to %d of a-z, 0-9 and -, with no - at either end",
			metric.Truncate(in, maxName), maxNamespace)
	}
	d = Document{Namespace: w.Metadata.Namespace, Name: w.Metadata.Name, Spec: w.Spec}
	switch w.Kind {
	case Kind:
		if d.Namespace == "" {
			d.Namespace = "default"
		}
	case ClusterKind:
		if d.Namespace != "" {
			fault("metadata.namespace is %q; must be empty for a %s", d.Namespace, ClusterKind)
		}
	default:
		fault("kind is %q; must be %s or %s", w.Kind, Kind, ClusterKind)
	}
	return d, faults
}

// Names of rules and namespaces, as Kubernetes has them.
var (
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	ruleName      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

const (
	maxName      = 253 // bytes
	maxNamespace = 63  // bytes
)

// fieldsOf are the fields of a document, by their path. A path of a map of any keys has nil.
var fieldsOf = map[string][]string{
	"":            {"apiVersion", "kind", "metadata", "spec"},
	"metadata":    {"name", "namespace", "labels", "annotations"},
	"spec":        {"metric", "let", "selectors", "value", "rename"},
	"spec.rename": {"from", "to"},
}

// mapsOf are the fields that map any key to a text.
var mapsOf = []string{"spec.let", "spec.selectors", "metadata.labels", "metadata.annotations"}

// wrongForms names the fields that have a list, a mapping or a text instead of another one, with
// their lines. Fields that no document has are left to unknownFields.
func wrongForms(node *yaml.Node) (faults []string) {
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		line := n.Line
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		field, form := metric.Visible(path)+" is", formOf(n)
		if path == "" {
			field = "the document is"
		}
		known, isMap := fieldsOf[path], slices.Contains(mapsOf, path)
		switch mapping := known != nil || isMap; {
		case n.Tag == "!!null":
			return
		case mapping && n.Kind != yaml.MappingNode:
			faults = append(faults, fmt.Sprintf("%d: %s %s; must be a mapping", line, field, form))
		case !mapping && n.Kind != yaml.ScalarNode:
			faults = append(faults, fmt.Sprintf("%d: %s %s; must be a text", line, field, form))
		case mapping:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if key := n.Content[i].Value; isMap || slices.Contains(known, key) {
					walk(n.Content[i+1], strings.TrimPrefix(path+"."+key, "."))
				}
			}
		}
	}
	walk(node, "")
	return faults
}

// unknownFields names the fields that no document has, with their lines. An API server adds some beside
// the spec.
func unknownFields(node *yaml.Node, fromServer bool) (faults []string) {
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		known := fieldsOf[path]
		if known == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, below := n.Content[i], strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
			if fromServer && (path == "metadata" || below == "status") {
				continue
			}
			if !slices.Contains(known, key.Value) {
				faults = append(faults, fmt.Sprintf("%d: %s is unknown; must be one of %s", key.Line,
					metric.Visible(metric.Truncate(below, maxName)), strings.Join(known, ", ")))
				continue
			}
			walk(n.Content[i+1], below)
		}
	}
	walk(node, "")
	return faults
}
