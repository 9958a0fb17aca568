package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/sluice-metrics/sluice/e2e/browser"
	"github.com/sluice-metrics/sluice/e2e/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Remove()
	os.Exit(code)
}

// payloads would run if a page took them for markup.
var payloads = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `<svg onload=alert(1)>`, `' onfocus='alert(1)' autofocus='`,
	`</textarea><script>alert(1)</script>`, `javascript:alert(1)`, "\u202egnp.exe", "طلبات",
}

// started is a server with a console, with metrics whose names and labels are hostile.
func started(t *testing.T) (*server.Server, string) {
	t.Helper()
	s := server.New(t)
	s.WithConsole()
	s.Start()
	push(t, s, "shop")
	return s, "http://" + s.Console
}

// push sends StatsD lines once.
func push(t *testing.T, s *server.Server, namespace string) {
	t.Helper()
	var lines strings.Builder
	for i, code := range []string{"200", "404", "500"} {
		fmt.Fprintf(&lines, "http_requests:%d|c|#code:%s,sluice_object:external/%s\n", 5-i, code, namespace)
	}
	fmt.Fprintf(&lines, "queue_depth:42|g|#sluice_object:deployments.apps/web,namespace:%s\nbad line\n", namespace)
	for _, p := range payloads {
		if !strings.ContainsAny(p, ":|") {
			fmt.Fprintf(&lines, "%s:1|c|#sluice_object:external/%s\n", p, namespace)
		}
		fmt.Fprintf(&lines, "labelled:1|c|#x:%s,sluice_object:external/%s\n%s\n", strings.ReplaceAll(p, ",", ""), namespace, p)
	}
	status, text := server.Ask(t, http.MethodPost, "http://"+s.HTTP+"/v1/statsd", lines.String())
	if status/100 != 2 && status != http.StatusBadRequest {
		t.Fatalf("push: %d %s", status, text)
	}
}

// pages are the addresses of all pages of a standalone server.
func pages() []string {
	all := []string{"/overview", "/metrics", "/refused", "/senders", "/groups", "/limits", "/rules", "/try", "/health", "/metrics?sort=-value", "/metric?namespace=shop&name=http_requests", "/metric?namespace=shop&name=labelled"}
	for _, p := range payloads {
		q := url.QueryEscape(p)
		all = append(all, "/metric?namespace=shop&name="+q, "/try?line="+q, "/metrics?filter="+q, "/refused?namespace="+q)
	}
	return all
}

func TestNoPayloadRuns(t *testing.T) {
	b := browser.New(t)
	_, root := started(t)
	for _, path := range pages() {
		b.Open(root + path)
		b.Await(`!document.getElementById("content").dataset.live || document.getElementById("state").textContent === "Live"`)
		if said := b.Said(); len(said) > 0 {
			t.Errorf("%s: %q", path, said)
		}
		if n := browser.Evaluate[int](b, `document.querySelectorAll("main script, main img, main svg[onload], [onfocus], [onerror], [style]:not(figure *)").length`); n != 0 {
			t.Errorf("%s: %d elements of a payload", path, n)
		}
	}
}

// An inline script doesn't run even if markup could be forged.
func TestThePolicyStopsInlineScript(t *testing.T) {
	b := browser.New(t)
	_, root := started(t)
	b.Open(root + "/metrics")
	b.Said()
	b.Do(chromedp.Evaluate(`{ const s = document.createElement("script"); s.textContent = "document.title = 'run'"; document.body.append(s); }`, nil))
	if title := browser.Evaluate[string](b, "document.title"); title == "run" {
		t.Error("an inline script ran")
	}
	if said := strings.Join(b.Said(), "\n"); !strings.Contains(said, "Content Security Policy") {
		t.Errorf("the browser said %q", said)
	}
}

func TestAPageFollowsItsMetric(t *testing.T) {
	b := browser.New(t)
	s, root := started(t)
	b.Open(root + "/metric?namespace=shop&name=http_requests")
	b.Await(`document.querySelector("figure.drawn canvas")?.getAttribute("aria-label")?.includes("code=200")`)
	b.Do(chromedp.Focus(".crumbs a"))
	server.Ask(t, http.MethodPost, "http://"+s.HTTP+"/v1/statsd", "http_requests:1|c|#code:999,sluice_object:external/shop\n")
	b.Await(`document.querySelector("table").innerText.includes("code=999")`)
	if focused := browser.Evaluate[string](b, "document.activeElement.textContent"); focused != "Metrics" {
		t.Errorf("after a change, the focus is on %q", focused)
	}
	if said := b.Said(); len(said) > 0 {
		t.Error(said)
	}
}

// While the server is away a banner says so, and no age stands still; afterwards the plot has a gap.
func TestAnOutageIsABannerAndAGap(t *testing.T) {
	b := browser.New(t)
	s, root := started(t)
	b.Open(root + "/metric?namespace=shop&of=deployments.apps&name=queue_depth")
	b.Await(`document.querySelector("figure.drawn canvas")?.getAttribute("aria-label") === "Last ten minutes; now web 42"`)
	put, err := http.NewRequest(http.MethodPut, "http://"+s.HTTP+"/v1/namespaces/shop/deployments.apps/web/queue_depth?sync=true", strings.NewReader("42"))
	must(t, err)
	if resp, err := http.DefaultClient.Do(put); err != nil || resp.StatusCode != http.StatusOK { // on disk, so that the restart has it
		t.Fatal(resp, err)
	}
	s.Kill()
	b.Await(`document.getElementById("outage")?.textContent.startsWith("No connection to Sluice since ")`)
	if text := browser.Evaluate[string](b, `document.querySelector("main").innerText`); regexp.MustCompile(`\d+s ago`).MatchString(text) ||
		!regexp.MustCompile(`last sample at \d+:\d\d:\d\d`).MatchString(text) {
		t.Errorf("while the server is away the page says\n%s", text)
	}
	b.Picture("away")
	time.Sleep(2 * time.Second) // of the outage
	s.Start()
	b.Await(`!document.getElementById("outage") && document.getElementById("state").textContent === "Live"`)
	b.Await(`document.querySelector("figure.drawn canvas")?.getAttribute("aria-label") === "Last ten minutes, with 1 gap; now web 42"`)
	b.Await(`/last sample \d+s ago/.test(document.querySelector("main").innerText)`)
}

// The first plot of a page has a minute, with a label for each of its times.
func TestThePlotOfAMinuteHasTimes(t *testing.T) {
	b := browser.New(t)
	_, root := started(t)
	b.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`window.written = [];
			const fill = CanvasRenderingContext2D.prototype.fillText;
			CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { window.written.push(text); return fill.call(this, text, ...at); };`).Do(ctx)
		return err
	}))
	b.Open(root + "/metric?namespace=shop&of=deployments.apps&name=queue_depth")
	b.Await(`document.querySelector("figure.drawn canvas") && window.written.some((text) => /:/.test(text))`)
	times := browser.Evaluate[[]string](b, `window.written.filter((text) => /^\d\d:\d\d:\d\d$/.test(text))`)
	if distinct := slices.Compact(slices.Sorted(slices.Values(times))); len(distinct) < 5 {
		t.Errorf("the times of the axis are %q", times)
	}
}

// The tabulator reaches everything, in the order of the page.
func TestKeyboard(t *testing.T) {
	b := browser.New(t)
	_, root := started(t)
	b.Open(root + "/metrics")
	var order []string
	for range 14 {
		b.Do(chromedp.KeyEvent(kb.Tab))
		order = append(order, browser.Evaluate[string](b, `(document.activeElement.textContent || document.activeElement.name).trim()`))
		if width := browser.Evaluate[string](b, "getComputedStyle(document.activeElement).outlineWidth"); width == "0px" {
			t.Errorf("the focus on %q isn't seen", order[len(order)-1])
		}
	}
	want := []string{"Skip to the content", "Sluice", "Overview", "Metrics", "Senders", "Groups", "Refused", "Limits", "Rules", "Try a line", "Health", "namespace", "filter", "Show"}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
	b.Open(root + "/metrics")
	b.Await(`document.getElementById("state").textContent === "Live"`)
	b.Do(chromedp.KeyEvent("/"))
	b.Await(`document.activeElement.name === "filter"`)
	b.Do(chromedp.KeyEvent("queue"))
	b.Await(`document.querySelectorAll("tbody tr").length === 1 && location.search === "?filter=queue"`)
	if focused := browser.Evaluate[string](b, "document.activeElement.name"); focused != "filter" {
		t.Errorf("while one types, the focus is on %q", focused)
	}
	b.Do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	b.Await(`document.title === "queue_depth · Metric · Sluice"`)
	b.Open(root + "/try")
	b.Do(chromedp.Focus("#line"), chromedp.KeyEvent("http_requests:1|c"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.Await(`document.querySelector("article")?.innerText.includes("applied")`)
}

// On a phone, no page is wider than the screen; and text has enough contrast in both schemes.
func TestScreens(t *testing.T) {
	b := browser.New(t)
	s, root := started(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1200} {
			b.Screen(width, 844, scheme)
			for _, path := range pages() {
				b.Open(root + path)
				if wide := browser.Evaluate[int64](b, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s is %d wide on a screen of %d", path, wide, width)
				}
			}
			for _, pair := range []string{"--text --ground", "--dim --ground", "--dim --raised", "--link --ground", "--bad --bad-ground", "--good --good-ground", "--warn --warn-ground"} {
				if ratio := browser.Evaluate[float64](b, fmt.Sprintf(contrast, pair)); ratio < 4.5 {
					t.Errorf("%s: %s have a contrast of %.1f; must be 4.5 (WCAG 2, 1.4.3)", scheme, pair, ratio)
				}
			}
		}
	}
	b.Screen(1200, 720, "light")
	b.Open(root + "/metric?namespace=shop&name=http_requests")
	for range 20 * boolInt(os.Getenv("SLUICE_PICTURES") != "") {
		push(t, s, "shop")
		time.Sleep(time.Second)
	}
	b.Await(`!!document.querySelector("figure.drawn")`)
	b.Picture("metric")
	b.Screen(1200, 720, "dark")
	b.Open(root + "/health")
	b.Picture("health")
	b.Screen(390, 844, "light")
	b.Open(root + "/metrics")
	b.Picture("phone")
	b.Screen(1200, 640, "light")
	b.Open(root + "/try?line=" + url.QueryEscape("http_requests:1|c|@0.1|#code:200,sluice_object:external/shop\nlatency 12|ms"))
	b.Picture("try")
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// contrast is the contrast of two colours of the style (WCAG 2, relative luminance).
const contrast = `(() => {
	const [a, b] = "%s".split(" ").map((name) => {
		const c = document.createElement("canvas").getContext("2d");
		c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
		const [r, g, bl] = [1, 3, 5].map((i) => parseInt(c.fillStyle.slice(i, i + 2), 16) / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * bl;
	});
	return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
})()`

// The first page of a server that was never pushed to says how, by a command that works, and shows the value without
// being loaded again.
func TestTheFirstMinute(t *testing.T) {
	b := browser.New(t)
	s := server.New(t)
	s.WithConsole()
	s.Start()
	b.Open("http://" + s.Console + "/")
	b.Await(`document.getElementById("state").textContent === "Live"`)
	command := browser.Evaluate[string](b, `window.stays = true, document.getElementById("push").textContent`)
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	b.Await(`document.querySelector("main").innerText.includes("http_requests") && Number(document.querySelector("td b")?.textContent) > 0 && window.stays`)
	b.Picture("first-minute")
	b.Await(`[...document.querySelectorAll("#receivers ~ table tr")].some((row) => row.innerText.includes("statsd_udp"))`)
	if said := b.Said(); len(said) > 0 {
		t.Error(said)
	}
}

// Series that are ticked are drawn, and stand in the address; the table says what the plot shows; the stat is chosen; a
// command is copied.
func TestAMetricsPageIsChosen(t *testing.T) {
	b := browser.New(t)
	s, root := started(t)
	page := root + "/metric?namespace=shop&name=http_requests"
	b.Open(page)
	b.Await(`document.querySelectorAll("figcaption .key").length === 3 && document.querySelector("figure.drawn")`)
	b.Do(chromedp.Click("tbody tr:nth-child(1) input"), chromedp.Click("tbody tr:nth-child(2) input"))
	b.Await(`document.querySelectorAll("figcaption .key").length === 1 && document.querySelector("figure.drawn") && new URLSearchParams(location.search).getAll("s").length === 1`)
	b.Do(chromedp.SetValue("select[name=stat]", "total"), chromedp.Evaluate(`document.querySelector("select[name=stat]").dispatchEvent(new Event("input", { bubbles: true }))`, nil))
	b.Await(`document.querySelector("[data-row]")?.textContent === "3" && document.querySelector("#get").textContent.includes("http_requests:total -l code=500")`)
	push(t, s, "shop")
	b.Await(`document.querySelector("[data-row]")?.textContent === "6" && document.querySelector("canvas").getAttribute("aria-label").endsWith(" 6")`)
	b.Do(chromedp.Evaluate(`window.copied = ""; navigator.clipboard.writeText = async (text) => { window.copied = text; }`, nil), chromedp.Click(`[data-copy=get]`))
	b.Await(`window.copied === document.querySelector("#get").textContent && document.querySelector("[data-copy=get]").textContent === "Copied"`)
	b.Open(browser.Evaluate[string](b, "location.href"))
	b.Await(`document.querySelectorAll("figcaption .key").length === 1 && document.querySelector("figure.drawn") && document.querySelector("select[name=stat]").value === "total"`)
	if said := b.Said(); len(said) > 0 {
		t.Error(said)
	}
}

// A group is deleted by two clicks; a page of another site deletes none.
func TestAGroupIsDeleted(t *testing.T) {
	b := browser.New(t)
	s, root := started(t)
	for _, instance := range []string{"a", "b"} {
		server.Ask(t, http.MethodPost, "http://"+s.HTTP+"/metrics/job/batch/instance/"+instance, "done 1\n")
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method=post action="%s/groups/delete"><input name=group value=/metrics/job/batch/instance/b><button>Win</button></form>`, root)
	}))
	t.Cleanup(other.Close)
	b.Open(other.URL)
	b.Do(chromedp.Click("button"))
	b.Await(`document.body.innerText.includes("cross-origin")`)
	_ = b.Said() // the browser speaks of the 403
	b.Open(root + "/groups")
	b.Await(`document.querySelectorAll("tbody tr").length === 2`)
	b.Do(chromedp.Click("tbody tr:first-child a.button"))
	b.Await(`document.querySelector("h1")?.textContent === "Delete this group?"`)
	b.Do(chromedp.Click("button.danger"))
	b.Await(`document.querySelector("h1")?.textContent === "Deleted" && document.querySelector("main").innerText.includes("instance=a")`)
	b.Do(chromedp.Click("main p a"))
	b.Await(`document.querySelectorAll("tbody tr").length === 1 && document.querySelector("tbody").innerText.includes("instance=b")`)
	if said := b.Said(); len(said) > 0 {
		t.Error(said)
	}
}

// A page whose stream was refused, as while the server starts, follows changes later without being loaded
// again.
func TestAPageFollowsOnceItIsAdmitted(t *testing.T) {
	b := browser.New(t)
	_, root := started(t)
	var streams []io.Closer
	for refused := false; !refused; { // an address has a part of all streams
		resp, err := http.Get(root + "/live/health")
		if err != nil || resp.StatusCode != http.StatusOK && len(streams) == 0 {
			t.Fatal(resp, err)
		}
		refused = resp.StatusCode != http.StatusOK
		streams = append(streams, resp.Body)
	}
	b.Open(root + "/health")
	b.Await(`document.getElementById("state").textContent.includes("Connection lost")`)
	for _, one := range streams {
		_ = one.Close()
	}
	b.Await(`document.getElementById("state").textContent === "Live"`)
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
