package push

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/pushgateway"
	"github.com/sluice-metrics/sluice/receiver/push/serieshttp"
)

// apiDocument is what the tests read of the document. That it is a sound document, and that answers
// are as it says, is held in e2e/clients.
type apiDocument struct {
	Paths      map[string]map[string]apiOperation
	Components struct {
		Parameters map[string]apiParameter
		Schemas    map[string]struct{ Enum []string }
	}
}

type apiOperation struct {
	OperationID string
	Parameters  []struct {
		Ref string `json:"$ref"`
	}
}

type apiParameter struct {
	Name, In string
	Example  any
}

// document is what every server serves: no setting changes it.
func document() []byte {
	cfg := DefaultConfig()
	return describeRoutes(withIndex(routes(cfg, Parts{}, pushgateway.New(nil, pushgateway.Config{}, cfg.Config), serieshttp.New(nil, false, nil))))
}

func readOpenAPI(t *testing.T) *apiDocument {
	t.Helper()
	d := new(apiDocument)
	must(t, json.Unmarshal(document(), d))
	return d
}

// operations calls each with its method, its path with all parameters filled in, and the names of
// its query parameters.
func (d *apiDocument) operations(t *testing.T, each func(method, template, path string, query []string)) {
	t.Helper()
	for template, methods := range d.Paths {
		for method, o := range methods {
			path, query := template, []string{}
			for _, ref := range o.Parameters {
				p, ok := d.Components.Parameters[strings.TrimPrefix(ref.Ref, "#/components/parameters/")]
				switch {
				case !ok:
					t.Errorf("%s %s: there is no parameter %q", method, template, ref.Ref)
				case p.In == "path":
					value := "shop"
					if p.Example != nil {
						value = p.Example.(string)
					}
					path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(value), 1)
				case p.In == "query":
					query = append(query, p.Name)
				}
			}
			if strings.ContainsAny(path, "{}") {
				t.Errorf("%s %s: the path has a parameter that is not described", method, template)
			}
			each(strings.ToUpper(method), template, path, query)
		}
	}
}

func openToWipe(c *Config, _ *Parts) { c.AdminWipe = true }

// Every path and method of the document is served.
func TestOpenAPIIsServed(t *testing.T) {
	g := gateway{start(t, openToWipe)}
	if res, text := g.ask("GET", "/openapi.json", ""); res.StatusCode != 200 || text != string(document()) {
		t.Errorf("GET /openapi.json: %d and %d bytes", res.StatusCode, len(text))
	}
	readOpenAPI(t).operations(t, func(method, _, path string, _ []string) {
		res, text := g.ask(method, path, "1")
		if res.StatusCode == http.StatusMethodNotAllowed || strings.Contains(text, `"reason":"path"`) || res.StatusCode >= 500 {
			t.Errorf("%s %s is in the document, but is answered with %d %s", method, path, res.StatusCode, text)
		}
	})
}

// The document has every method of every route, and no others.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	s := start(t, openToWipe).server
	documented := map[*httpserver.Route]map[string]bool{}
	readOpenAPI(t).operations(t, func(method, template, path string, _ []string) {
		r, f := s.Router.Find([]byte(path), new(httpserver.Path))
		if f != nil {
			t.Errorf("%s leads nowhere: %v", path, f)
			return
		}
		if documented[r] == nil {
			documented[r] = map[string]bool{}
		}
		documented[r][method] = true
		if r.Handler(method) == nil {
			t.Errorf("%s %s is in the document, but has no handler", method, template)
		}
	})
	for _, r := range s.Router.Routes {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			if r.Handler(method) != nil && !documented[r][method] {
				t.Errorf("the document has no %s of %v", method, append(r.Paths, r.Index...))
			}
		}
	}
}

// inspectCode walks over the code of the server and its protocols.
func inspectCode(t *testing.T, visit func(ast.Node)) {
	t.Helper()
	files, err := filepath.Glob("*/*.go")
	must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool { visit(n); return true })
	}
}

// The index shows the paths that the document has, and no others: but for the two that are not for
// everybody.
func TestOpenAPIHasThePathsOfTheIndex(t *testing.T) {
	want := map[string]bool{"GET /": true, "PUT /api/v1/admin/wipe": true}
	for _, line := range start(t).server.Router.Index {
		rest := strings.ReplaceAll(line, "{cluster resource}", "{clusterResource}")
		at := strings.Index(rest, " /")
		for _, method := range strings.Split(rest[:at], ", ") {
			for _, path := range strings.Split(rest[at+1:], ", ") {
				want[method+" "+path] = true
			}
		}
	}
	got := map[string]bool{}
	readOpenAPI(t).operations(t, func(method, template, _ string, _ []string) {
		if strings.HasPrefix(template, "/metrics/job") { // OpenAPI knows no path of any length: the document has three
			template = "/metrics/job/{job}{/label/value}"
		}
		got[method+" "+template] = true
	})
	for p := range got {
		if !want[p] {
			t.Errorf("the index does not have %s", p)
		}
	}
	for p := range want {
		if !got[p] {
			t.Errorf("the document does not have %s", p)
		}
	}
}

// The document has the query parameters that a request takes, and none that it refuses.
func TestOpenAPIParameters(t *testing.T) {
	g := gateway{start(t, openToWipe)}
	values := map[string]string{"type": "gauge", "label": "a=b", "ttl": "1h", "rate": "1", "sync": "true", "dialect": "statsd", "sum": "true"}
	refuses := func(method, path, parameter string) bool {
		_, text := g.ask(method, path+"?"+parameter, "1")
		return strings.Contains(text, "is unknown")
	}
	readOpenAPI(t).operations(t, func(method, _, path string, documented []string) {
		if !refuses(method, path, "nonsense=1") && len(documented) > 0 {
			t.Errorf("%s %s takes any parameter, but has %v", method, path, documented)
			return
		}
		for _, name := range httpserver.ParamNames() {
			value, ok := values[name]
			if !ok {
				t.Fatalf("this test has no value of %q", name)
			}
			if !refuses(method, path, "nonsense=1") {
				continue
			}
			if taken := !refuses(method, path, name+"="+value); taken != slices.Contains(documented, name) {
				t.Errorf("%s %s: taken=%v of %q, the document has %v", method, path, taken, name, documented)
			}
		}
	})
}

// The document lists the reasons that the code has.
func TestOpenAPIReasons(t *testing.T) {
	want := map[string]bool{metric.Pending.String(): true}
	for _, r := range metric.Reasons() {
		want[r.String()] = true
	}
	literal := func(e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			reason, _ := strconv.Unquote(l.Value)
			want[reason] = true
		}
	}
	inspectCode(t, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
				literal(n.Value)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if field, ok := to.(*ast.SelectorExpr); ok && field.Sel.Name == "Reason" && len(n.Rhs) == len(n.Lhs) {
					literal(n.Rhs[i])
				}
			}
		case *ast.ValueSpec: // a reason with a name, such as unavailableReason
			for i, name := range n.Names {
				if strings.HasSuffix(name.Name, "Reason") && i < len(n.Values) {
					literal(n.Values[i])
				}
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "refuseConnection" {
				literal(n.Args[1])
			}
		}
	})
	got := readOpenAPI(t).Components.Schemas["Reason"].Enum
	if g, w := fmt.Sprint(slices.Sorted(slices.Values(got))), fmt.Sprint(slices.Sorted(maps.Keys(want))); g != w {
		t.Errorf("the document has the reasons\n%s, the code\n%s", g, w)
	}
}
