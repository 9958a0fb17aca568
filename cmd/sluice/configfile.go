package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// readConfigFile sets flags from a YAML file whose keys are the flags' names, and returns every fault in
// it, with its line, and where each flag was set. A flag that was given on the command line keeps that value.
func readConfigFile(path string, flags *pflag.FlagSet) (written map[string]string, faults []error) {
	broken := func(where, text string) (map[string]string, []error) {
		return nil, []error{&settingFault{"config", where + ":", text}}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return broken("--config", err.Error())
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil // an empty file sets nothing
	} else if err != nil {
		return broken(yamlFault(path, text, err))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return broken(path, "the file must be one YAML document")
	}
	if document.Content[0].Tag == "!!null" {
		return nil, nil
	}
	settings := document.Content[0]
	if settings.Kind != yaml.MappingNode {
		return broken(fmt.Sprintf("%s:%d", path, settings.Line), "the file must be a map of settings, as in \"max-series: 1000\"")
	}
	written = map[string]string{}
	seen := map[string]int{}
	for i := 0; i+1 < len(settings.Content); i += 2 {
		key, value := settings.Content[i], settings.Content[i+1]
		if before, twice := seen[key.Value]; twice {
			faults = append(faults, fmt.Errorf("%s:%d: %s is set in line %d already", path, key.Line, key.Value, before))
			continue
		}
		seen[key.Value] = key.Line
		line := fmt.Sprintf("%s:%d: ", path, key.Line)
		flag := flags.Lookup(key.Value)
		if flag == nil || notInFile[key.Value] {
			faults = append(faults, fmt.Errorf("%sunknown setting %q: its settings are the flags of 'sluice serve --help', without the dashes", line, key.Value))
			continue
		}
		given := flag.Changed
		if err := setFromFile(flag, value); err != nil {
			faults = append(faults, &settingFault{flag.Name, line + key.Value, err.Error()})
		} else if !given {
			written[flag.Name] = line + key.Value
		}
	}
	return written, faults
}

// yamlFault says where the file is no YAML, and why: "yaml: line 3: …" in our form. Of tabs, which look like the spaces that they must
// be, the library says neither that they are some nor always the line.
func yamlFault(path string, file []byte, err error) (where, text string) {
	var spaced yaml.Node
	if tab := guiltyTab(file); tab >= 0 && yaml.Unmarshal(bytes.ReplaceAll(file, []byte("\t"), []byte(" ")), &spaced) == nil {
		return fmt.Sprintf("%s:%d", path, 1+bytes.Count(file[:tab], []byte("\n"))), "the line has a tab; YAML is indented with spaces only"
	}
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if line, ok := strings.CutPrefix(text, "line "); ok {
		if number, why, ok := strings.Cut(line, ": "); ok {
			return path + ":" + number, why
		}
	}
	return path, text
}

// guiltyTab is where the first tab stands that indents a line; if there is none, the first of all; -1: there is none.
func guiltyTab(file []byte) int {
	if at := indentingTab.FindIndex(file); at != nil {
		return at[1] - 1
	}
	return bytes.IndexByte(file, '\t')
}

var indentingTab = regexp.MustCompile(`(?m)^ *\t`)

// notInFile are flags that make no sense in a file.
var notInFile = map[string]bool{"config": true, "help": true, "print-example-config": true}

// setFromFile sets a flag that the command line did not.
func setFromFile(flag *pflag.Flag, value *yaml.Node) error {
	text, err := scalarText(value)
	if err != nil || flag.Changed {
		return err
	}
	return set(flag, text)
}

var errNotScalar = errors.New("is not one value; must be one value or a list of values")

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
