package pushgateway

import "github.com/sluice-metrics/sluice/receiver/push/httpserver"

// Routes returns the routes of the protocol.
func (h *Handler) Routes() []*httpserver.Route {
	get := func(path string, handle func(*httpserver.Request), o httpserver.Operation) *httpserver.Route {
		o.Method, o.Path = "GET", path
		return &httpserver.Route{
			Paths: []string{path}, Index: []string{path}, Get: handle,
			Tag: "pushgateway", Operations: []httpserver.Operation{o},
		}
	}
	return []*httpserver.Route{
		{
			Match: h.matchGroup, Index: []string{"/metrics/job/{job}{/label/value}"},
			Put: h.replaceGroup, Post: h.mergeGroup, Delete: h.deleteGroup, Fail: (*httpserver.Request).FailPush,
			Tag: "pushgateway", Operations: groupOperations(),
		},
		get("/metrics", h.expose, httpserver.Operation{
			ID: "exposeGroups", Summary: "All groups that the sender may read, as an exposition",
			Params: "accept", Answers: "200:Exposition",
		}),
		get("/api/v1/metrics", h.listGroups, httpserver.Operation{
			ID: "listGroups", Summary: "The same as JSON", Answers: "200:Groups",
		}),
		get("/api/v1/status", h.status, httpserver.Operation{
			ID: "gatewayStatus", Summary: "Which build this is, since when it runs", Answers: "200:Status",
		}),
		{
			Paths: []string{"/api/v1/admin/wipe"}, Put: h.wipe, Disabled: !h.config.AdminWipe,
			Tag: "pushgateway", Operations: []httpserver.Operation{{
				Method: "PUT", Path: "/api/v1/admin/wipe", ID: "wipe",
				Summary: "Deletes all groups that the sender may delete; with --http-admin-wipe, else 404",
				Answers: "202:GroupDeleted 404:NotFound",
			}},
		},
		{
			Paths: []string{"/-/ready", "/-/healthy"}, Index: []string{"/-/ready, /-/healthy"},
			Get: healthy, Public: true,
			Tag: "pushgateway", Operations: []httpserver.Operation{
				{Method: "GET", Path: "/-/ready", ID: "ready", Summary: "Answers while the port is served", Answers: "200:OK"},
				{Method: "GET", Path: "/-/healthy", ID: "healthy", Summary: "Answers while the port is served", Answers: "200:OK"},
			},
		},
	}
}

// groupOperations describes the paths of matchGroup. OpenAPI has no path of any length, so there
// are three.
func groupOperations() (all []httpserver.Operation) {
	for _, group := range []struct{ path, name, params string }{
		{"/metrics/job/{job}", "Group", "job"},
		{"/metrics/job/{job}/{label}/{value}", "LabelledGroup", "job groupLabel groupValue"},
		{"/metrics/job@base64/{job}", "EncodedGroup", "job64"},
	} {
		push := httpserver.Operation{
			Path: group.path, Params: group.params + " ttl sync groupTTL groupSync encoding",
			Body: "Exposition", Answers: "200:Grouped 404:NotFound",
		}
		replace, merge := push, push
		replace.Method, replace.ID, replace.Summary = "PUT", "replace"+group.name, "Replaces a group"
		merge.Method, merge.ID, merge.Summary = "POST", "merge"+group.name, "Replaces the families of the same names in a group"
		all = append(all, replace, merge, httpserver.Operation{
			Method: "DELETE", Path: group.path, ID: "delete" + group.name, Summary: "Deletes a group",
			Params: group.params + " sync groupSync", Answers: "202:GroupDeleted 404:NotFound",
		})
	}
	return all
}
