// Package browser runs headless Chromium for tests of pages.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// timeout bounds all that one test does with a browser.
const timeout = 2 * time.Minute

// Browser is one tab. It remembers dialogs, exceptions and messages of the console, which no page
// should cause.
type Browser struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex
	said []string
}

// New starts a browser, which ends with the test. Without Chromium the test is skipped.
func New(t *testing.T) *Browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no Chromium here: install the package chromium")
	}
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.UserDataDir(profile), chromedp.WindowSize(1200, 900))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	bounded, cancel := context.WithTimeout(t.Context(), timeout)
	allocated, stop := chromedp.NewExecAllocator(bounded, options...)
	ctx, closeTab := chromedp.NewContext(allocated)
	b := &Browser{t: t, ctx: ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser's end, so that its folder can be removed
		closeTab()
		stop()
		cancel()
		remove(profile)
	})
	chromedp.ListenTarget(ctx, b.listen)
	b.Do(cdplog.Enable())
	return b
}

// remove deletes the browser's folder, in which its helpers write for a moment after its end.
func remove(folder string) {
	for range 50 {
		if os.RemoveAll(folder) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (b *Browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		b.said = append(b.said, "dialog: "+e.Message)
		go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(true)) }()
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, "exception: "+e.ExceptionDetails.Text)
	case *cdplog.EventEntryAdded:
		b.said = append(b.said, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	}
}

// Said returns the dialogs, exceptions and messages since the last call. Messages about pages that
// are not found are left out.
func (b *Browser) Said() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.said {
		if !strings.Contains(one, "404 (Not Found)") {
			all = append(all, one)
		}
	}
	b.said = nil
	return all
}

// Do carries out actions, and ends the test if one fails.
func (b *Browser) Do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Screen sets the size of the page and the color scheme ("light", "dark").
func (b *Browser) Screen(width, height int64, scheme string) {
	b.t.Helper()
	b.Do(emulation.SetDeviceMetricsOverride(width, height, 1, width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

// Open opens a page and waits until it has loaded.
func (b *Browser) Open(url string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(url), chromedp.WaitReady("body"))
}

// Evaluate returns the value of an expression.
func Evaluate[T any](b *Browser, expression string) (value T) {
	b.t.Helper()
	b.Do(chromedp.Evaluate(expression, &value))
	return value
}

// patience ends what hangs.
const patience = 10 * time.Minute

// Await waits until an expression is true.
func (b *Browser) Await(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if Evaluate[bool](b, "!!("+expression+")") {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("never: %s\n%s", expression, Evaluate[string](b, "document.body.innerText"))
		}
	}
}

// Picture writes what is seen into the folder that SLUICE_PICTURES names, if it is set.
func (b *Browser) Picture(name string) {
	b.t.Helper()
	folder := os.Getenv("SLUICE_PICTURES")
	if folder == "" {
		return
	}
	var picture []byte
	b.Do(chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
