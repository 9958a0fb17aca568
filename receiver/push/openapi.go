package push

import (
	_ "embed"

	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
)

// openapiPath is where the API's description lies.
const openapiPath = "/openapi.json"

// openapiText describes all that the port takes (https://spec.openapis.org/oas/v3.1.1.html). It is written by hand; tests hold
// it to the router, the parameters and the reasons, and the answers of a running server to it.
//
//go:embed openapi.json
var openapiText []byte

// answerOpenAPI answers GET /openapi.json.
func answerOpenAPI(x *httpserver.Request) {
	x.HTTP.SetStatusCode(fasthttp.StatusOK)
	x.HTTP.SetContentType(httpserver.ContentType)
	x.HTTP.SetBody(openapiText)
}
