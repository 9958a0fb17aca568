package client

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

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
	for _, one := range n.Content {
		inBlocks(one)
	}
}
