package clients

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// api is the document of a running server, with its schemas compiled.
type api struct {
	t        *testing.T
	document map[string]any
	compiler *jsonschema.Compiler
}

const apiURL = "file:///openapi.json"

// readAPI reads the document. The user is a name and a password, if the server requires them.
func readAPI(t *testing.T, s *server.Server, user ...string) *api {
	t.Helper()
	req, err := http.NewRequest("GET", "http://"+s.HTTP+"/openapi.json", nil)
	must(t, err)
	if len(user) == 2 {
		req.SetBasicAuth(user[0], user[1])
	}
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	document, err := jsonschema.UnmarshalJSON(res.Body)
	must(t, err)
	a := &api{t: t, document: document.(map[string]any), compiler: jsonschema.NewCompiler()}
	a.compiler.DefaultDraft(jsonschema.Draft2020) // of OpenAPI 3.1
	a.compiler.AssertFormat()
	must(t, a.compiler.AddResource(apiURL, document))
	return a
}

// at resolves a JSON pointer, through references.
func (a *api) at(pointer string) (found map[string]any, where string) {
	a.t.Helper()
	var node any = a.document
	for _, key := range strings.Split(strings.TrimPrefix(pointer, "#/"), "/") {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		node = node.(map[string]any)[key]
		if node == nil {
			return nil, ""
		}
	}
	found, _ = node.(map[string]any)
	if ref, ok := found["$ref"].(string); ok {
		return a.at(ref)
	}
	return found, pointer
}

func (a *api) schema(pointer string) *jsonschema.Schema {
	a.t.Helper()
	s, err := a.compiler.Compile(apiURL + pointer)
	if err != nil {
		a.t.Fatalf("%s: %v", pointer, err)
	}
	return s
}

// check compares an answer with the document's description of the operation: status, type, schema
// and headers.
func (a *api) check(method, template string, res *http.Response, body []byte) {
	a.t.Helper()
	what := fmt.Sprintf("%s %s: %d %s", method, template, res.StatusCode, body)
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(template)
	pointer := "#/paths/" + escaped + "/" + strings.ToLower(method) + "/responses/" + strconv.Itoa(res.StatusCode)
	if res.StatusCode == http.StatusMethodNotAllowed { // the operation does not exist
		pointer = "#/components/responses/MethodNotAllowed"
	}
	if strings.HasPrefix(string(body), `{"error":{"reason":"path"`) {
		pointer = "#/components/responses/NotFound"
	}
	response, where := a.at(pointer)
	if response == nil {
		a.t.Errorf("the status is not in the document: %s", what)
		return
	}
	media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	content, _ := response["content"].(map[string]any)
	if without := len(body) == 0 && media == "" && content == nil; !without && content[media] == nil {
		a.t.Errorf("the document has no %q of it: %s", media, what)
		return
	}
	for _, name := range []string{"Allow", "Retry-After", "Sluice-Unserved", "WWW-Authenticate", "X-Prometheus-Remote-Write-Samples-Written"} {
		if headers, _ := response["headers"].(map[string]any); res.Header.Get(name) != "" && headers[name] == nil {
			a.t.Errorf("the document has no header %s of it: %s", name, what)
		}
	}
	if media != "application/json" {
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = a.schema(where + "/content/application~1json/schema").Validate(value)
	}
	if err != nil {
		a.t.Errorf("%v: %s", err, what)
	}
}

// All references resolve, all schemas are valid, and all operations have distinct names.
func TestOpenAPIIsSound(t *testing.T) {
	s := server.New(t)
	s.Start()
	a := readAPI(t, s)
	if version := a.document["openapi"]; version != "3.1.0" {
		t.Errorf("openapi is %v", version)
	}
	names, used := map[any]bool{}, map[string]bool{}
	var walk func(node any, pointer string)
	walk = func(node any, pointer string) {
		switch node := node.(type) {
		case []any:
			for i, one := range node {
				walk(one, pointer+"/"+strconv.Itoa(i))
			}
		case map[string]any:
			if ref, ok := node["$ref"].(string); ok {
				used[ref] = true
				if found, _ := a.at(ref); found == nil {
					t.Errorf("%s: %s leads nowhere", pointer, ref)
				}
			}
			if name, ok := node["operationId"]; ok {
				if names[name] {
					t.Errorf("two operations are called %v", name)
				}
				names[name] = true
			}
			if schema, ok := node["schema"].(map[string]any); ok && schema["$ref"] == nil {
				a.schema(pointer + "/schema")
			}
			for key, one := range node {
				walk(one, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1", "%", "%25").Replace(key))
			}
		}
	}
	walk(a.document, "#")
	for _, one := range a.document["security"].([]any) {
		for name := range one.(map[string]any) {
			used["#/components/securitySchemes/"+name] = true
		}
	}
	components := a.document["components"].(map[string]any)
	for kind, all := range components {
		for name := range all.(map[string]any) {
			pointer := "#/components/" + kind + "/" + name
			if kind == "schemas" {
				a.schema(pointer)
			}
			if exempt := name == "MethodNotAllowed" || name == "Sample"; !used[pointer] && !exempt {
				t.Errorf("nothing refers to %s", pointer)
			}
		}
	}
}

// A running server's answers match the document.
func TestOpenAPIAnswers(t *testing.T) {
	s := server.New(t, "--http-admin-wipe", "--http-max-body", "64KiB")
	s.Start()
	a := readAPI(t, s)
	const (
		object   = "/v1/namespaces/{namespace}/{resource}/{name}/{metric}"
		own      = "/v1/namespaces/{namespace}/metrics/{metric}"
		external = "/v1/namespaces/{namespace}/external/{metric}"
		cluster  = "/v1/{clusterResource}/{name}/{metric}"
		wide     = "/v1/external/{metric}"
		samples  = "/v1/samples"
		group    = "/metrics/job/{job}"
		labelled = "/metrics/job/{job}/{label}/{value}"
		histo    = "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 2\ns_count 2\n"
	)
	const (
		export, write = "/v1/metrics", "/api/v1/write"
		data          = `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"%s","gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}`
	)
	exported, refused := fmt.Sprintf(data, "o"), fmt.Sprintf(data, "status")
	asJSON := []string{"Content-Type", "application/json"}
	protobuf := []string{"Content-Type", "application/x-protobuf", "Content-Encoding", "identity"}
	big := strings.Repeat("a:1|c\n", 20<<10)
	a.checkAll(s, []exchanged{
		{200, "GET", "/", "/", "", nil},
		{200, "GET", "/openapi.json", "/openapi.json", "", nil},
		{200, "PUT", object, "/v1/namespaces/shop/pods/web-1/q", "5", nil},
		{200, "PUT", object, "/v1/namespaces/shop/pods/web-1/q?sync=true&label=a=b&label=c=d&ttl=1h&type=gauge", "5", nil},
		{409, "POST", object, "/v1/namespaces/shop/pods/web-1/q", "5", nil},
		{200, "POST", object, "/v1/namespaces/shop/pods/web-1/t?type=timer&rate=0.5", "5\n6\n", nil},
		{400, "POST", object, "/v1/namespaces/shop/pods/web-1/t?type=timer", "5\nx\n", nil},
		{400, "PUT", object, "/v1/namespaces/shop/pods/web-1/q", "x", nil},
		{400, "PUT", object, "/v1/namespaces/shop/pods/web-1/q?nonsense=1", "x", nil},
		{404, "PUT", object, "/v1/namespaces/shop/foos/web-1/q", "1", nil},
		{400, "PUT", object, "/v1/namespaces/shop/pods/web-1/q%zz", "1", nil},
		{415, "PUT", object, "/v1/namespaces/shop/pods/web-1/q", "1", []string{"Content-Encoding", "br"}},
		{413, "PUT", object, "/v1/namespaces/shop/pods/web-1/q", big, nil},
		{200, "GET", object, "/v1/namespaces/shop/pods/*/q", "", nil},
		{200, "GET", object, "/v1/namespaces/shop/pods/web-1/t:p95:10s", "", nil},
		{400, "GET", object, "/v1/namespaces/shop/pods/web-1/t:p95:13s", "", nil},
		{404, "GET", object, "/v1/namespaces/shop/pods/web-1/none", "", nil},
		{200, "DELETE", object, "/v1/namespaces/shop/pods/*/q?sync=true", "", nil},
		{404, "DELETE", object, "/v1/namespaces/shop/pods/*/q", "", nil},
		{200, "PUT", own, "/v1/namespaces/shop/metrics/m", "1.5", nil},
		{200, "GET", own, "/v1/namespaces/shop/metrics/m", "", nil},
		{200, "PUT", external, "/v1/namespaces/shop/external/m", "1.5", nil},
		{200, "GET", external, "/v1/namespaces/shop/external/m", "", nil},
		{200, "PUT", cluster, "/v1/nodes/n1/m", "-3", nil},
		{200, "GET", cluster, "/v1/nodes/n1/m", "", nil},
		{200, "POST", wide, "/v1/external/m?type=set", "member", nil},
		{200, "GET", wide, "/v1/external/m", "", nil},
		{200, "POST", samples, samples, `{"name":"a","type":"counter","value":1}`, nil},
		{400, "POST", samples, samples, strings.Repeat("{}\n", 30), nil},
		{200, "POST", "/v1/statsd", "/v1/statsd?dialect=dogstatsd", "a:1|c", nil},
		{400, "POST", "/v1/statsd", "/v1/statsd", "a:x|c\n_e{1,1}:a|b", nil},
		{200, "PUT", group, "/metrics/job/j", "a 1\nnan NaN\n" + histo, nil},
		{400, "PUT", group, "/metrics/job/j", "a 1 5\n", nil},
		{400, "PUT", group, "/metrics/job/j", "a{", nil},
		{413, "PUT", group, "/metrics/job/j", big, nil},
		{415, "PUT", group, "/metrics/job/j", "a 1", []string{"Content-Type", "application/vnd.google.protobuf"}},
		{404, "PUT", labelled, "/metrics/job/j/sluice_object@base64/Zm9vcy9h", "a 1", nil},
		{200, "POST", labelled, "/metrics/job/j/instance/i", "a 1\n", []string{"Sluice-TTL", "1h", "Sluice-Sync", "true"}},
		{200, "POST", "/metrics/job@base64/{job}", "/metrics/job@base64/ag", "a 1\n", nil},
		{200, "GET", "/metrics", "/metrics", "", nil},
		{200, "GET", "/metrics", "/metrics", "", []string{"Accept", "application/openmetrics-text"}},
		{200, "GET", "/metrics", "/metrics", "", []string{"Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"}},
		{200, "GET", "/api/v1/metrics", "/api/v1/metrics", "", nil},
		{200, "GET", "/api/v1/status", "/api/v1/status", "", nil},
		{202, "DELETE", group, "/metrics/job/j", "", nil},
		{202, "DELETE", group, "/metrics/job/none", "", nil},
		{202, "PUT", "/api/v1/admin/wipe", "/api/v1/admin/wipe", "", nil},
		{200, "GET", "/-/ready", "/-/ready", "", nil},
		{200, "GET", "/-/healthy", "/-/healthy", "", nil},
		{405, "PATCH", object, "/v1/namespaces/shop/pods/web-1/q", "", nil},
		{405, "GET", group, "/metrics/job/j", "", nil},
		{404, "GET", "/nowhere", "/nowhere", "", nil},
		{431, "GET", "/", "/", "", []string{"A", strings.Repeat("b", 20<<10)}},
		{200, "POST", export, export, exported, asJSON},
		{200, "POST", export, export + "?sync=true", exported, asJSON},
		{200, "POST", export, export, refused, asJSON},
		{400, "POST", export, export, "{", asJSON},
		{400, "POST", export, export + "?nonsense=1", exported, asJSON},
		{413, "POST", export, export, big, asJSON},
		{415, "POST", export, export, exported, append([]string{"Content-Encoding", "br"}, asJSON...)},
		{415, "POST", export, export, exported, []string{"Content-Type", "text/plain"}},
		{200, "POST", export, export, "", protobuf},
		{400, "POST", export, export, "\xff", protobuf},
		{405, "GET", export, export, "", nil},
		{204, "POST", write, write, remoteWrite("w"), protobuf},
		{204, "POST", write, write + "?sync=true", remoteWrite("w"), protobuf},
		{400, "POST", write, write, remoteWrite("status"), protobuf},
		{400, "POST", write, write, "\xff", protobuf},
		{413, "POST", write, write, big, protobuf},
		{415, "POST", write, write, remoteWrite("w"), asJSON},
		{405, "PUT", write, write, "", nil},
	})
	a.checkRaw(s, "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400)
}

// remoteWrite is a prometheus.WriteRequest of one sample, 1, now.
func remoteWrite(name string) string {
	field := func(tag byte, b string) string { return string([]byte{tag, byte(len(b))}) + b }
	sample := binary.AppendUvarint([]byte("\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10"), uint64(time.Now().UnixMilli()))
	return field(10, field(10, field(10, "__name__")+field(18, name))+field(18, string(sample)))
}

// A missing or wrong password is answered in the form of the path's protocol.
func TestOpenAPIUnauthorized(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwords")
	must(t, os.WriteFile(file, []byte(passwords), 0o600))
	s := server.New(t, "--push-basic-auth-file", file, "--http-admin-wipe")
	s.Start()
	a := readAPI(t, s, "warehouse", "open sesame")
	var all []exchanged
	for template, methods := range a.document["paths"].(map[string]any) {
		path := strings.NewReplacer("{namespace}", "shop", "job@base64/{job}", "job@base64/ag", "{resource}", "pods", "{clusterResource}", "nodes", "{", "", "}", "").Replace(template)
		for method, operation := range methods.(map[string]any) {
			if operation.(map[string]any)["security"] != nil { // no credential is required
				continue
			}
			for _, shown := range []string{"", "Basic YTpi", "Basic a"} {
				headers := []string{"Content-Type", "application/json"}
				if shown != "" {
					headers = append(headers, "Authorization", shown)
				}
				all = append(all, exchanged{401, strings.ToUpper(method), template, path, "1", headers})
			}
		}
	}
	a.checkAll(s, all)
}

// exchanged is a request and the status of its answer.
type exchanged struct {
	status                       int
	method, template, path, body string
	headers                      []string
}

// checkAll sends requests and compares the answers with the document.
func (a *api) checkAll(s *server.Server, all []exchanged) {
	t := a.t
	t.Helper()
	for _, c := range all {
		req, err := http.NewRequest(c.method, "http://"+s.HTTP+c.path, strings.NewReader(c.body))
		if err != nil {
			req, err = http.NewRequest(c.method, "http://"+s.HTTP+"/", strings.NewReader(c.body))
			must(t, err)
			req.URL.Opaque = c.path
		}
		for i := 0; i < len(c.headers); i += 2 {
			req.Header.Set(c.headers[i], c.headers[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status {
			t.Errorf("%s %s: %v, %d %s; want %d", c.method, c.path, err, res.StatusCode, body, c.status)
		}
		a.check(c.method, c.template, res, body)
	}
}

// checkRaw sends bytes that no HTTP client would send.
func (a *api) checkRaw(s *server.Server, request string, status int) {
	a.t.Helper()
	conn, err := net.Dial("tcp", s.HTTP)
	must(a.t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, request); err != nil {
		a.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(a.t, err)
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		a.t.Errorf("%q: %v, %d %s; want %d", request, err, res.StatusCode, body, status)
	}
	a.check("GET", "/", res, body)
}

// The document's schema of a line accepts and rejects the lines that the server accepts and
// rejects.
func TestOpenAPISamples(t *testing.T) {
	s := server.New(t)
	s.Start()
	schema := readAPI(t, s).schema("#/components/schemas/Sample")
	for _, line := range []string{
		`{"name":"a1","type":"counter","value":1}`,
		`{"name":"a2","type":"gauge","value":-1.5e3,"delta":true,"labels":{"k":"v"},"ttl":"90s","timestamp":1700000000}`,
		`{"name":"a3","type":"timer","value":1,"rate":0.5,"namespace":"shop","object":"pods/web-1"}`,
		`{"name":"a4","type":"histogram","value":1,"object":"nodes/n1"}`,
		`{"name":"a5","type":"set","value":"m","namespace":"shop","object":"external"}`,
		`{"name":"a6","type":"gauge","value":1,"delta":false,"ttl":"1h30m"}`,
		`{"name":"a7","type":"counter","value":1,"delta":false,"ttl":"forever"}`,
		`{"type":"counter","value":1}`,
		`{"name":"","type":"counter","value":1}`,
		`{"name":"b1","value":1}`,
		`{"name":"b2","type":"counter"}`,
		`{"name":"b3","type":"meter","value":1}`,
		`{"name":"b4","type":"counter","value":"1"}`,
		`{"name":"b5","type":"set","value":1}`,
		`{"name":"b6","type":"set","value":""}`,
		`{"name":"b7","type":"gauge","value":1,"rate":0.5}`,
		`{"name":"b8","type":"counter","value":1,"rate":0}`,
		`{"name":"b9","type":"counter","value":1,"rate":1.5}`,
		`{"name":"c1","type":"counter","value":1,"delta":true}`,
		`{"name":"c2","type":"counter","value":1,"nonsense":1}`,
		`{"name":"c3","type":"counter","value":null}`,
		`{"name":"c4","type":"counter","value":1,"namespace":"Shop"}`,
		`{"name":"c5","type":"counter","value":1,"namespace":""}`,
		`{"name":"c6","type":"counter","value":1,"object":"pods"}`,
		`{"name":"c7","type":"counter","value":1,"object":"external/shop"}`,
		`{"name":"c8","type":"counter","value":1,"labels":{"k":1}}`,
		`{"name":"c9","type":"counter","value":1,"labels":{"":"v"}}`,
		`{"name":"d1","type":"counter","value":1,"ttl":"soon"}`,
		`{"name":"d2","type":"counter","value":1,"timestamp":-1}`,
		`{"name":"a8","type":"counter","value":1,"timestamp":1.5}`,
		`{"name":"d4","type":"counter","value":1,"timestamp":1700000000000}`,
		`[]`,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		must(t, err)
		says := schema.Validate(value)
		res, err := http.Post("http://"+s.HTTP+"/v1/samples", "application/x-ndjson", strings.NewReader(line))
		must(t, err)
		var answer struct{ Applied int }
		err = json.NewDecoder(res.Body).Decode(&answer)
		res.Body.Close()
		if err != nil || (says == nil) != (answer.Applied == 1) {
			t.Errorf("%s: the server says %d, the schema %v (%v)", line, res.StatusCode, says, err)
		}
	}
}
