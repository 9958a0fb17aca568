package push

import (
	_ "embed"

	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// openapiText is the OpenAPI document without its paths, which come from the routes. Tests check
// parameters and reasons, and the answers of a running server.
//
//go:embed openapi.json
var openapiText []byte

// describeRoutes returns the document that GET /openapi.json answers with.
func describeRoutes(routes []*httpserver.Route) []byte {
	document, err := httpserver.OpenAPI(openapiText, routes)
	if err != nil { // a test makes it
		panic("push: openapi.json: " + err.Error())
	}
	return document
}
