package adapter

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An answer is complete or an error: before the pods are known, some would be missing.
func TestQueriesWaitUntilReady(t *testing.T) {
	var ready atomic.Bool
	a := running(t, prepared(t, Parts{Ready: func() (bool, string) { return ready.Load(), "pods are being listed" }}, anonymousAccess()))
	queries := []string{requestsPath, customRoot + "v1beta1/nodes/*/temperature", customRoot + "v1beta2/namespaces/shop/metrics/queue-length", ordersPath}
	others := []string{
		"/livez", "/healthz", "/version", "/apis", "/apis/custom.metrics.k8s.io", "/apis/custom.metrics.k8s.io/v1beta2",
		"/apis/external.metrics.k8s.io/v1beta1/", "/openapi/v3",
	}
	within(t, "it listens", func() bool {
		resp, err := a.client.Get(a.url + "/livez")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	for _, path := range queries {
		resp, body := a.get(t, path, "application/json")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
			t.Fatalf("%s: %d, Retry-After %q", path, resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		if s := status(t, body); s.Reason != "ServiceUnavailable" || s.Message != "not ready: pods are being listed" {
			t.Errorf("%s: %s", path, body)
		}
	}
	if resp, body := a.get(t, "/readyz", ""); resp.StatusCode == http.StatusOK || !strings.Contains(string(body), "[-]answers failed") {
		t.Errorf("/readyz: %d %s", resp.StatusCode, body)
	}
	for _, path := range others {
		if resp, _ := a.get(t, path, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	ready.Store(true)
	for _, path := range append(queries, "/readyz") {
		if resp, body := a.get(t, path, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("when ready, %s: %d %s", path, resp.StatusCode, body)
		}
	}
}

// Requests still arrive until the Service's endpoints were updated. The delay begins after the stop, so
// a server that is not there before the delay has passed since was too early, however slow the test.
func TestAnswersWhileShuttingDown(t *testing.T) {
	const delay = 3 * time.Second
	a := prepared(t, Parts{}, anonymousAccess(), func(c *Config) { c.ShutdownDelay = delay })
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	(&api{Server: a, url: "https://" + a.Addr().String(), client: client}).waitReady(t)
	stopped := time.Now()
	stop()
	get := func(path string) (code int) {
		resp, err := client.Get("https://" + a.Addr().String() + path)
		if err != nil {
			if after := time.Since(stopped); after < delay {
				t.Errorf("%s, %v after the stop: %v", path, after, err)
			}
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for code := http.StatusOK; code != 0; time.Sleep(50 * time.Millisecond) {
		code = get("/readyz")
		if asked := get(requestsPath); code == http.StatusInternalServerError && asked != http.StatusOK && asked != 0 {
			t.Errorf("%d while shutting down", asked)
		}
		if code == http.StatusOK && time.Since(stopped) > time.Minute {
			t.Fatal("it stays ready")
		}
	}
	if err := <-done; err != nil || time.Since(stopped) < delay {
		t.Errorf("Run returned %v after %v", err, time.Since(stopped))
	}
}

func TestGroupsAreSwitchedOffEverywhere(t *testing.T) {
	for on, change := range map[string]func(*Config){
		"custom":   func(c *Config) { c.ExternalMetrics = false },
		"external": func(c *Config) { c.CustomMetrics = false },
	} {
		off := "custom"
		if on == "custom" {
			off = "external"
		}
		t.Run("only "+on, func(t *testing.T) {
			a := start(t, shop(), change)
			for _, document := range []struct{ path, accept string }{
				{"/apis", ""}, {"/apis", aggregatedForm}, {"/openapi/v2", "application/json"}, {"/openapi/v3", ""},
			} {
				resp, body := a.get(t, document.path, document.accept)
				text := string(body)
				if resp.StatusCode != http.StatusOK || !strings.Contains(text, on+".metrics.k8s.io") {
					t.Errorf("%s %s: %d without %s", document.path, document.accept, resp.StatusCode, on)
				}
				if strings.Contains(text, off+".metrics.k8s.io/") || strings.Contains(text, `"`+off+".metrics.k8s.io") {
					t.Errorf("%s %s tells %s", document.path, document.accept, off)
				}
			}
			group := "/apis/" + off + ".metrics.k8s.io"
			for _, path := range []string{group, group + "/v1beta1", group + "/v1beta1/namespaces/shop/orders_waiting"} {
				if resp, _ := a.get(t, path, ""); resp.StatusCode != http.StatusNotFound {
					t.Errorf("%s: %d", path, resp.StatusCode)
				}
			}
			// The library answers an unknown document with an empty 200.
			if _, body := a.get(t, "/openapi/v3"+group+"/v1beta1", ""); len(body) > 0 {
				t.Errorf("there is an OpenAPI document of %s", off)
			}
		})
	}
}

func TestWaitsAreLogged(t *testing.T) {
	for _, c := range []struct {
		name   string
		states []string // one per second; empty: ready. The last one stays.
		lasts  time.Duration
		want   []string // each line's "for" and reason, and "over"
	}{
		{"ready at once", []string{""}, time.Minute, []string{"over"}},
		{"ready in a moment", []string{"map", ""}, time.Minute, []string{"over"}},
		{"a long wait", []string{"map"}, 70 * time.Second, []string{"2s map", "32s map", "1m2s map"}},
		{"another reason", []string{"map", "map", "map", "map", "names"}, 20 * time.Second, []string{"2s map", "4s names"}},
		{"a wait again", []string{"", "", "", "names", "names", ""}, time.Minute, []string{"over", "0s names", "over"}},
		{"told, over, and again", []string{"map", "map", "map", "", "names", ""}, time.Minute, []string{"2s map", "over", "0s names", "over"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
					ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
						if a.Key == "for" || a.Key == "reason" {
							return a
						}
						return slog.Attr{}
					},
				}))
				began := time.Now()
				state := func() (bool, string) {
					missing := c.states[min(int(time.Since(began)/time.Second), len(c.states)-1)]
					return missing == "", missing
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.lasts)
				defer cancel()
				logWhileNotReady(ctx, logger, state, func() { out.WriteString("over\n") })
				got := strings.NewReplacer("for=", "", "reason=", "").Replace(strings.TrimSpace(out.String()))
				if want := strings.Join(c.want, "\n"); got != want {
					t.Errorf("told\n%s\nwant\n%s", got, want)
				}
			})
		})
	}
}
