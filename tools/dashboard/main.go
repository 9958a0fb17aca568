package main

import (
	"encoding/json"
	"fmt"
	"os"
)

const path = "../charts/sluice/dashboards/sluice.json"

func main() {
	text, err := render()
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// render is the dashboard as JSON.
func render() ([]byte, error) {
	text, err := json.MarshalIndent(dashboard(), "", " ")
	return append(text, '\n'), err
}

type object = map[string]any

func dashboard() object {
	return object{
		"uid": "sluice", "title": "Sluice", "tags": []string{"sluice"},
		"editable": true, "schemaVersion": 39, "version": 2, "refresh": "30s", "timezone": "",
		"time":        object{"from": "now-1h", "to": "now"},
		"annotations": object{"list": []any{}},
		"templating":  object{"list": variables()},
		"panels":      layOut(rows),
	}
}

// variables choose the data source, the clusters (whose label the scrape configuration gives; all
// is right where there is none) and the scrape jobs.
func variables() []object {
	choice := func(name, label, query string) object {
		return object{
			"name": name, "label": label, "type": "query", "datasource": source,
			"query": object{"query": query, "refId": name}, "definition": query,
			"includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 1,
			"current": object{"text": []string{"All"}, "value": []string{"$__all"}},
		}
	}
	return []object{
		{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
		choice("cluster", "Cluster", "label_values(sluice_build_info, cluster)"),
		choice("job", "Job", `label_values(sluice_build_info{cluster=~"$cluster"}, job)`),
	}
}

var source = object{"type": "prometheus", "uid": "${datasource}"}
