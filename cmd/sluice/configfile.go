package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// readConfigFile sets flags from a YAML file whose keys are the flags' names, and returns every fault in
// it, with its line. A flag that was given on the command line keeps that value.
func readConfigFile(path string, flags *pflag.FlagSet) []error {
	text, err := os.ReadFile(path)
	if err != nil {
		return []error{fmt.Errorf("--config: %w", err)}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil // an empty file sets nothing
	} else if err != nil {
		return []error{fmt.Errorf("--config %s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return []error{fmt.Errorf("--config %s: want one YAML document", path)}
	}
	if document.Content[0].Tag == "!!null" {
		return nil
	}
	settings := document.Content[0]
	if settings.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("%s:%d: want settings as in \"max-series: 1000\"", path, settings.Line)}
	}
	var faults []error
	seen := map[string]int{}
	for i := 0; i+1 < len(settings.Content); i += 2 {
		key, value := settings.Content[i], settings.Content[i+1]
		if before, twice := seen[key.Value]; twice {
			faults = append(faults, fmt.Errorf("%s:%d: %s is set in line %d already", path, key.Line, key.Value, before))
			continue
		}
		seen[key.Value] = key.Line
		if err := setFromFile(flags, key.Value, value); err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", path, key.Line, err))
		}
	}
	return faults
}

// notInFile are flags that make no sense in a file.
var notInFile = map[string]bool{"config": true, "help": true}

func setFromFile(flags *pflag.FlagSet, name string, value *yaml.Node) error {
	flag := flags.Lookup(name)
	if flag == nil || notInFile[name] {
		return fmt.Errorf("unknown setting %q: its settings are the flags of 'sluice serve --help', without the dashes", name)
	}
	text, err := scalarText(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if flag.Changed {
		return nil
	}
	if err := set(flag, text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

var errNotScalar = errors.New("want one value, or a list of values")

// scalarText is a value as it would stand behind a flag; a list is joined with commas.
func scalarText(value *yaml.Node) (string, error) {
	switch value.Kind {
	case yaml.ScalarNode:
		return value.Value, nil
	case yaml.SequenceNode:
		pieces := make([]string, len(value.Content))
		for i, piece := range value.Content {
			if piece.Kind != yaml.ScalarNode {
				return "", errNotScalar
			}
			pieces[i] = piece.Value
		}
		return strings.Join(pieces, ","), nil
	}
	return "", errNotScalar
}
