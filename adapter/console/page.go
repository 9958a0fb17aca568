package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

//go:embed templates/*.html
var templateFiles embed.FS

// page is one kind of page.
type page struct {
	path  string // below the root, also of the stream
	title string
	// template is the file of the content.
	template string
	// every is the interval at which a page that is open follows changes; 0: it doesn't.
	every time.Duration
	// duty, if it is more than renderDuty, lengthens the interval: making the page takes 1/duty of a core.
	duty time.Duration
	// scope is the namespace whose right a request needs; empty: all.
	scope func(url.Values) string
	// content gathers what the template shows.
	content func(context.Context, *request) (any, error)
}

// request is a request for a page.
type request struct {
	server *Server
	// source has the values that the client may have.
	source inspect.Source
	// readable says which values of external metrics the client may have; nil: all.
	readable inspect.Readable
	query    url.Values
	now      time.Time
	// wide is set if the client may see all namespaces.
	wide bool
	// who is the client; nil: nobody was asked.
	who *metric.Principal
	// thing is what the page is about, and plots are its plots; content sets them.
	thing string
	plots []plot
}

// plotOf adds a plot to the page, and has its subject recorded.
func (r *request) plotOf(p plot) *plot {
	r.server.history.watch(p.of, p.rows, r.now)
	r.plots = append(r.plots, p)
	return &r.plots[len(r.plots)-1]
}

// shown is what the layout shows.
type shown struct {
	Title string
	Path  string
	Nav   []link
	Live  string // path of the stream; empty: none
	Plots bool   // the page has some
	// Body is the template of the content.
	Body template.HTML
}

type link struct{ Path, Title string }

// navigation are the pages that each page links to.
var navigation = []link{
	{"overview", "Overview"}, {"metrics", "Metrics"}, {"senders", "Senders"}, {"groups", "Groups"},
	{"refused", "Refused"}, {"limits", "Limits"},
	{"rules", "Rules"}, {"nodes", "Nodes"}, {"replicas", "Replicas"}, {"try", "Try a line"}, {"health", "Health"},
}

// navigation leaves out the pages of which this process has nothing.
func (s *Server) navigation() []link {
	return slices.DeleteFunc(slices.Clone(navigation), func(l link) bool {
		return l.Path == "nodes" && !s.parts.Agents || l.Path == "replicas" && s.parts.Health().Replicas == 0
	})
}

func inNamespace(q url.Values) string { return q.Get("namespace") }

func (s *Server) pages() []page {
	all := func(url.Values) string { return "" }
	return []page{
		{"overview", "Overview", "overview.html", 3 * time.Second, overviewDuty, inNamespace, s.overview},
		{"autoscaler", "Autoscaler", "autoscaler.html", 2 * time.Second, 0, inNamespace, s.autoscaler},
		{"metrics", "Metrics", "metrics.html", 5 * time.Second, 0, inNamespace, s.metrics},
		{"metric", "Metric", "metric.html", 2 * time.Second, 0, inNamespace, s.metric},
		{"senders", "Senders", "senders.html", 3 * time.Second, 0, inNamespace, s.senders},
		{"groups", "Groups", "groups.html", 3 * time.Second, 0, inNamespace, s.groups},
		s.deletionPage(),
		{"refused", "Refused", "refused.html", 3 * time.Second, 0, inNamespace, s.refused},
		{"limits", "Limits", "limits.html", 3 * time.Second, 0, inNamespace, s.limits},
		{"rules", "Rules", "rules.html", 5 * time.Second, 0, inNamespace, s.rules},
		{"nodes", "Nodes", "nodes.html", 3 * time.Second, 0, all, s.nodes},
		{"replicas", "Replicas", "replicas.html", 3 * time.Second, 0, all, s.replicas},
		{"try", "Try a line", "try.html", 0, 0, namespaceOfSender, s.try},
		{"health", "Health", "health.html", 2 * time.Second, 0, all, s.health},
	}
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, former := range []string{"/{$}", "/autoscalers"} {
		mux.HandleFunc("GET "+former, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, (&url.URL{Path: "/overview", RawQuery: r.URL.RawQuery}).String(), http.StatusFound)
		})
	}
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	for _, p := range s.pages() {
		mux.HandleFunc("GET /"+p.path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, r.URL.Query(), &p) })
		if p.every > 0 {
			mux.HandleFunc("GET /live/"+p.path, func(w http.ResponseWriter, r *http.Request) { s.follow(w, r, &p) })
		}
	}
	mux.HandleFunc("POST /"+deletePath, s.deleteGroup)
	return mux
}

// templates parses the pages at the first request.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(templateFiles, "templates/*.html"))
})

// sections are the pages of the navigation to which others belong.
var sections = map[string]string{"autoscaler": "overview", "metric": "metrics", deletePath: "groups"}

// serve answers a request for a page with the query q.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, q url.Values, p *page) {
	layout := shown{Title: p.title, Path: cmp.Or(sections[p.path], p.path), Nav: s.navigation()}
	status := http.StatusOK
	made, err := s.render(r.Context(), credentialOf(r), q, p)
	content := made.text
	switch refused := new(refusal); {
	case errors.As(err, &refused):
		if status = refused.status; status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="Sluice: paste a token as the password", charset="UTF-8"`)
		}
		content, err = s.execute("refusal.html", refusalContent{
			refused.text, layout.Path, q.Get("namespace"), refused.links})
	case err == nil && p.every > 0:
		layout.Live = "/live/" + p.path + "?" + r.URL.RawQuery
		layout.Plots = p.path == "metric" || p.path == "autoscaler"
	}
	if made.thing != "" {
		layout.Title = metric.Visible(made.thing) + " · " + p.title
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	layout.Body = template.HTML(content) //nolint:gosec // made by html/template
	whole, err := s.execute("layout.html", layout)
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(whole) // an error means that the client is gone
}

// refusalContent is the page in the place of one that is not there.
type refusalContent struct {
	Text, Path, Namespace string
	Links                 []metricLink
}

func (s *Server) fail(w http.ResponseWriter, err error) {
	s.parts.Logger.Error("console: a page could not be made", "error", err)
	http.Error(w, "the page could not be made; the log says why", http.StatusInternalServerError)
}

// rendered is the content of a page.
type rendered struct {
	text  []byte
	thing string // what it is about; empty: the page's title says it
	plots []plot
}

// render makes the content of a page, if the client may see it.
func (s *Server) render(ctx context.Context, c credential, q url.Values, p *page) (made rendered, err error) {
	scope := p.scope(q)
	who, err := s.admit(ctx, c, scope)
	if err == nil {
		err = s.answers(p)
	}
	if err != nil {
		return made, err
	}
	request := &request{server: s, source: s.parts.Source, query: q, now: time.Now(), who: who,
		wide: s.parts.Access == nil || scope == ""}
	if s.parts.Readable != nil {
		request.readable = s.parts.Readable(readerOf(who))
		request.source = inspect.Restrict(s.parts.Source, request.readable)
	}
	content, err := p.content(ctx, request)
	if err != nil {
		return made, err
	}
	made.text, err = s.execute(p.template, content)
	made.thing, made.plots = request.thing, request.plots
	return made, err
}

func (s *Server) execute(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	err := templates().ExecuteTemplate(&out, name, data)
	return out.Bytes(), err
}

// keyOf reads the position of a page in a list.
func (r *request) keyOf(list string) (inspect.Key, error) {
	key, err := inspect.ParseToken(list, r.query.Get("after"))
	if err != nil {
		return key, &refusal{status: http.StatusBadRequest, text: "after " + err.Error()}
	}
	return key, nil
}

// pageOf reads the page of a list that the query asks for, with the addresses of the first and the next one; empty:
// there is none.
func pageOf[T any](r *request, path, list, namespace string, read func(inspect.Query) inspect.Page[T]) (rows []T,
	first, next string, err error) {
	q := inspect.Query{Namespace: namespace, Most: pageSize}
	if q.After, err = r.keyOf(list); err != nil {
		return nil, "", "", err
	}
	if q.After != (inspect.Key{}) {
		first = address(path, "namespace", namespace)
	}
	page := read(q)
	return page.Items, first, r.next(path, list, page.Next), nil
}

// next is the address of the page that follows; empty: there is none.
func (r *request) next(path, list string, key inspect.Key) string {
	if key == (inspect.Key{}) {
		return ""
	}
	q := url.Values{}
	for name, values := range r.query {
		q[name] = values
	}
	q.Set("after", key.Token(list))
	return "/" + path + "?" + q.Encode()
}

// readerOf is the client as policies know it.
func readerOf(who *metric.Principal) (reader metric.Reader) {
	if who != nil {
		reader = metric.Reader{User: who.User, Groups: who.Groups}
	}
	return reader
}

// functions are what templates may call.
var functions = template.FuncMap{
	"name": breakable, "ago": ago, "link": address, "count": grouped, "labels": shownLabels, "join": strings.Join,
	"percent": percent, "short": short, "tryAgain": tryAgain, "sentence": explain.Sentence, "replicas": replicas,
	"lag": lag, "seconds": seconds, "bytes": mebibytes, "visible": metric.Visible, "clock": clock,
	"remedies": remedies, "autoscalerLink": autoscalerLink, "pushUDP": pushUDP, "pushHTTP": pushHTTP,
	"snippet": func(id, text string) Snippet { return Snippet{id, "the command", text} },
}

// replicas is the noun behind a number.
func replicas(n *int32) string {
	if *n == 1 {
		return "replica"
	}
	return "replicas"
}

// seconds is a duration to the millisecond.
func seconds(d time.Duration) string { return d.Round(time.Millisecond).String() }

// clock is a time of day, with the date for pages that show it in the reader's zone.
func clock(at time.Time) template.HTML {
	return template.HTML(`<time class="clock" datetime="` + at.UTC().Format(time.RFC3339) + `">` +
		at.UTC().Format("15:04 MST") + "</time>") //nolint:gosec // nothing from outside
}

// ago is an age for people, with its time for pages that don't follow any more.
func ago(then time.Time) template.HTML {
	if then.IsZero() {
		return "never"
	}
	return template.HTML(`<time datetime="` + then.UTC().Format(time.RFC3339) + `">` + inspect.Age(time.Since(then)) +
		" ago</time>") //nolint:gosec // nothing from outside
}

// address makes the address of a page, of names and values in turn.
func address(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return "/" + path
	}
	return "/" + path + "?" + q.Encode()
}

// grouped writes a number with a thin space between thousands.
func grouped(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u2009" + digits[i:]
	}
	return digits
}

// mebibytes is a size for people.
func mebibytes(n int64) string {
	const mebibyte = 1 << 20
	if n < 10*mebibyte {
		return strconv.FormatFloat(float64(n)/mebibyte, 'f', 1, 64) + " MiB"
	}
	return grouped(n/mebibyte) + " MiB"
}

// short writes a number or a quantity with three significant digits: 9966666667n is 9.97. All digits before
// the point stay, and so do whole numbers and those with a suffix that makes them shorter.
func short(text string) string {
	v, fraction := explain.Number(text), strings.HasSuffix(text, "m") || strings.HasSuffix(text, "u") ||
		strings.HasSuffix(text, "n")
	_, err := strconv.ParseFloat(text, 64)
	switch plain := err == nil; {
	case math.IsNaN(v) || plain && !strings.ContainsAny(text, ".e") || !plain && !fraction:
		return text
	case math.Abs(v) >= 100 && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// percent is a share of a whole, for the widths of bars.
func percent(part, whole uint64) string {
	if whole == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3f", 100*float64(part)/float64(whole))
}

//go:embed assets/*
var assetFiles embed.FS

// mediaTypes are the assets that are served. Others in the folder are licences and checksums.
var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// assetTags are the entity tags of assets: browsers ask whether an asset has changed.
var assetTags = sync.OnceValue(func() map[string]string {
	tags := map[string]string{}
	entries, _ := assetFiles.ReadDir("assets")
	for _, one := range entries {
		if content, err := assetFiles.ReadFile("assets/" + one.Name()); err == nil {
			sum := sha256.Sum256(content)
			tags[one.Name()] = `"` + hex.EncodeToString(sum[:8]) + `"`
		}
	}
	return tags
})

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, err := assetFiles.ReadFile("assets/" + name)
	media := mediaTypes[path.Ext(name)]
	if err != nil || media == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", assetTags()[name])
	if r.Header.Get("If-None-Match") == assetTags()[name] {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(content)
}
