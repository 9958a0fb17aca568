package console

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/sluice-metrics/sluice/e2e/browser"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// axe-core finds nothing on any page, wide and narrow, light and dark, empty and with metrics of a hostile name.
// SLUICE_AXE names its axe.min.js (npm pack axe-core): 550 kB under the MPL, so it isn't kept here.
func TestAxe(t *testing.T) {
	file := os.Getenv("SLUICE_AXE")
	if file == "" {
		t.Skip("SLUICE_AXE names no axe.min.js")
	}
	axe, err := os.ReadFile(file)
	must(t, err)
	s, root := started(t)
	server.Ask(t, http.MethodPost, "http://"+s.HTTP+"/metrics/job/batch", "done 1\n")
	paths := append(pages()[:16:16], "/groups/delete?group=/metrics/job/batch", "/try?line="+url.QueryEscape("a:1|c\nb 1|c"),
		"/metrics?filter=nothing", "/metric?name=nothing", "/groups?namespace=none", "/senders?namespace=none")
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(fmt.Sprint(scheme, width), func(t *testing.T) {
				b := browser.New(t)
				b.Do(page.SetBypassCSP(true))
				b.Screen(width, 844, scheme)
				for _, path := range paths {
					b.Open(root + path)
					b.Do(chromedp.Evaluate(string(axe)+"; 0", nil), chromedp.Evaluate(axeRun, nil))
					b.Await("window.found")
					for _, fault := range browser.Evaluate[[]string](b, "window.found") {
						t.Errorf("%s: %s", path, fault)
					}
				}
			})
		}
	}
}

// axeRun leaves what was found, a line each, in window.found.
const axeRun = `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => {
	window.found = violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.html.slice(0, 200)).join("; "));
}), 0`
