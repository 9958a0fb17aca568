package push

import (
	_ "embed"

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
func answerOpenAPI(x *exchange) {
	x.http.SetStatusCode(fasthttp.StatusOK)
	x.http.SetContentType(contentType)
	x.http.SetBody(openapiText)
}
