package native

import "github.com/sluice-metrics/sluice/receiver/push/httpserver"

// operations describes the paths of matchSeries.
func operations() (all []httpserver.Operation) {
	for _, target := range []struct {
		path, of string
		// IDs of the operations
		set, add, read, remove string
		params                 string // parameters of the path before the metric, for one object
		many                   string // parameters of the path, where * is all objects
	}{
		{
			"/v1/namespaces/{namespace}/{resource}/{name}/{metric}", "an object in a namespace",
			"setOfObject", "addOfObject", "readOfObject", "deleteOfObject", "namespace resource object",
			"namespace resource objects",
		},
		{
			"/v1/namespaces/{namespace}/metrics/{metric}", "a namespace itself",
			"setOfNamespace", "addOfNamespace", "readOfNamespace", "deleteOfNamespace", "namespace", "namespace",
		},
		{
			"/v1/namespaces/{namespace}/external/{metric}", "a namespace's external metrics",
			"setExternal", "addExternal", "readExternal", "deleteExternal", "namespace", "namespace",
		},
		{
			"/v1/{clusterResource}/{name}/{metric}", "an object that is in no namespace",
			"setOfClusterObject", "addOfClusterObject", "readOfClusterObject", "deleteOfClusterObject", "clusterResource object",
			"clusterResource objects",
		},
		{
			"/v1/external/{metric}", "the external metrics that are in no namespace",
			"setClusterWide", "addClusterWide", "readClusterWide", "deleteClusterWide", "", "",
		},
	} {
		const (
			pushParams  = " metric type label ttl rate sync encoding"
			pushAnswers = "200:Pushed 202:Held 404:NotFound 409:Conflict"
		)
		all = append(all,
			httpserver.Operation{
				Method: "PUT", Path: target.path, ID: target.set, Summary: "Sets a gauge of " + target.of,
				Params: target.params + pushParams, Body: "Gauge", Answers: pushAnswers,
			},
			httpserver.Operation{
				Method: "POST", Path: target.path, ID: target.add, Summary: "Adds to a metric of " + target.of,
				Params: target.params + pushParams, Body: "Added", Answers: pushAnswers,
			},
			httpserver.Operation{
				Method: "GET", Path: target.path, ID: target.read, Summary: "Reads a metric of " + target.of,
				Params: target.many + " asked label sum", Answers: "200:Items 404:NotFound 500:Internal",
			},
			httpserver.Operation{
				Method: "DELETE", Path: target.path, ID: target.remove, Summary: "Deletes a metric of " + target.of,
				Params: target.many + " metric label sync", Answers: "200:Deleted 404:NotFound",
			})
	}
	return all
}
