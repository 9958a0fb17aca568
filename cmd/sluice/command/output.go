package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
)

// Output is the flag -o: one of a command's words, or jsonpath=TEMPLATE, as kubectl has it.
type Output struct {
	Word     string // JSONPath: there is a template
	words    []string
	template *jsonpath.JSONPath
}

// JSONPath is the word before a template.
const JSONPath = "jsonpath="

// NewOutput is a flag with these words, of which the first is the default.
func NewOutput(words ...string) Output { return Output{Word: words[0], words: words} }

// Set implements pflag.Value.
func (o *Output) Set(text string) error {
	if expression, ok := strings.CutPrefix(text, JSONPath); ok {
		template := jsonpath.New("output").AllowMissingKeys(true)
		if err := template.Parse(expression); err != nil {
			return fmt.Errorf("is no JSONPath template, as in jsonpath={.items[*].name}: %w", err)
		}
		o.Word, o.template = JSONPath, template
		return nil
	}
	word := strings.ToLower(text)
	if !slices.Contains(o.words, word) {
		return fmt.Errorf("must be %s%s", OneOf(append(slices.Clone(o.words), JSONPath+"TEMPLATE")),
			suggest.DidYouMean(word, o.words))
	}
	o.Word, o.template = word, nil
	return nil
}

func (o *Output) String() string { return o.Word }

// Type implements pflag.Value.
func (o *Output) Type() string { return strings.Join(o.words, "|") + "|" + JSONPath + "…" }

// Completions implements Completed.
func (o *Output) Completions() []string { return append(slices.Clone(o.words), JSONPath) }

// IsDocument reports whether a document is printed, and not text for people.
func (o *Output) IsDocument() bool {
	return slices.Contains([]string{"json", "yaml", JSONPath}, o.Word)
}

// Write prints a JSON document in the format.
func (o *Output) Write(out io.Writer, document []byte) error {
	switch o.Word {
	case "yaml":
		text, err := yamlOf(document)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	case JSONPath:
		var content any
		if err := utiljson.Unmarshal(document, &content); err != nil { // whole numbers stay whole
			return fmt.Errorf("the response is not JSON: %w", err)
		}
		var text strings.Builder
		if err := o.template.Execute(&text, content); err != nil {
			return fmt.Errorf("-o jsonpath: %w", err)
		}
		_, err := fmt.Fprintln(out, visibleText(text.String()))
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, bytes.TrimSpace(document), "", "  "); err != nil {
		return fmt.Errorf("the response is not JSON: %w", err)
	}
	indented.WriteByte('\n')
	_, err := indented.WriteTo(out)
	return err
}

// visibleText escapes what a terminal obeys, but for the tabs and the ends of lines of a template.
func visibleText(text string) string {
	var b strings.Builder
	for i := strings.IndexAny(text, "\n\t"); i >= 0; i = strings.IndexAny(text, "\n\t") {
		b.WriteString(metric.Visible(text[:i]) + text[i:i+1])
		text = text[i+1:]
	}
	return b.String() + metric.Visible(text)
}

// Order is the flag --sort-by: a JSONPath of one value of an item, as kubectl has it.
type Order struct {
	text string
	path *jsonpath.JSONPath // nil: the items' own order
}

// Set implements pflag.Value.
func (o *Order) Set(text string) error {
	expression := text
	if !strings.HasPrefix(expression, "{") {
		expression = "{." + strings.TrimPrefix(expression, ".") + "}"
	}
	path := jsonpath.New("sort-by").AllowMissingKeys(true)
	if err := path.Parse(expression); err != nil {
		return fmt.Errorf("must be the JSONPath of a value of an item, as in .series or {.name}: %w", err)
	}
	o.text, o.path = text, path
	return nil
}

func (o *Order) String() string { return o.text }

// IsSet reports whether there is an order.
func (o *Order) IsSet() bool { return o.path != nil }

// Type implements pflag.Value.
func (o *Order) Type() string { return "jsonpath" }

// errNothingToSortBy: a misspelled path would silently sort nothing.
var errNothingToSortBy = errors.New("no item has a value there")

// Places returns the places of items in the order: numbers and quantities by their size, other values as text.
// Items without a value are first.
func (o *Order) Places(items []json.RawMessage) ([]int, error) {
	places, keys, found := make([]int, len(items)), make([]string, len(items)), len(items) == 0
	for i, item := range items {
		var content any
		if err := utiljson.Unmarshal(item, &content); err != nil {
			return nil, err
		}
		values, err := o.path.FindResults(content)
		if err != nil {
			return nil, fmt.Errorf("--sort-by %s: %w", o.text, err)
		}
		if places[i] = i; len(values) > 0 && len(values[0]) > 0 {
			keys[i], found = fmt.Sprint(values[0][0].Interface()), true
		}
	}
	if !found {
		return nil, fmt.Errorf("--sort-by %s: %w", o.text, errNothingToSortBy)
	}
	slices.SortStableFunc(places, func(a, b int) int { return compareKeys(keys[a], keys[b]) })
	return places, nil
}

func compareKeys(a, b string) int {
	first, err := resource.ParseQuantity(a)
	if err == nil {
		second, err := resource.ParseQuantity(b)
		if err == nil {
			return first.Cmp(second)
		}
	}
	return strings.Compare(a, b)
}

// Sorted is a list in the order.
func (o *Order) Sorted(list []byte) ([]byte, error) {
	if o.path == nil {
		return list, nil
	}
	var members map[string]json.RawMessage
	var items []json.RawMessage
	if err := errors.Join(json.Unmarshal(list, &members), json.Unmarshal(members["items"], &items)); err != nil {
		return nil, fmt.Errorf("the response is no list: %w", err)
	}
	places, err := o.Places(items)
	if err != nil {
		return nil, err
	}
	sorted := make([]json.RawMessage, len(items))
	for i, place := range places {
		sorted[i] = items[place]
	}
	if members["items"], err = json.Marshal(sorted); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// yamlOf writes a JSON document as YAML, with its members in their order.
func yamlOf(document []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil { // JSON is YAML in flow style
		return nil, fmt.Errorf("a document as YAML: %w", err)
	}
	inBlocks(&root)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(&root)
	return out.Bytes(), err
}

// inBlocks removes the flow style and the quotes of JSON. The encoder quotes what needs quotes.
func inBlocks(n *yaml.Node) {
	n.Style = 0
	for _, node := range n.Content {
		inBlocks(node)
	}
}
