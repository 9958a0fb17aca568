package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// fakeDeleter lets root delete, and whoever needs no credential.
type fakeDeleter struct {
	source *fakeSource
	away   bool
}

func (f *fakeDeleter) MayDelete(_ context.Context, who *metric.Principal, g *inspect.PushedGroup) (bool, error) {
	if f.away {
		return false, errors.Join(ErrUnavailable, errors.New("the API server cannot be asked"))
	}
	return (who == nil || who.User == "root") && g.Job != "guarded", nil
}

func (f *fakeDeleter) Delete(g *inspect.PushedGroup) bool {
	for i := range f.source.groups {
		if groupPath(&f.source.groups[i]) == groupPath(g) && f.source.groups[i].Namespace == g.Namespace {
			f.source.groups = append(f.source.groups[:i:i], f.source.groups[i+1:]...)
			return true
		}
	}
	return false
}

func twoGroups() *fakeSource {
	return &fakeSource{groups: []inspect.PushedGroup{
		{Namespace: "shop", Job: "batch", Labels: map[string]string{"instance": "a/b"}, Families: 1, Series: 2, LastPush: time.Now()},
		{Namespace: "shop", Job: "guarded", LastPush: time.Now()},
	}}
}

// post asks a console to delete a group.
func post(t *testing.T, routes http.Handler, group string, header ...string) *recorder {
	t.Helper()
	form := url.Values{"namespace": {"shop"}, "group": {group}}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:9096/groups/delete", strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	got := newRecorder()
	routes.ServeHTTP(got, req)
	return got
}

const batch = "/metrics/job/batch/instance@base64/YS9i"

// A group is deleted once its page was asked and has answered, and the answer says which.
func TestAGroupIsDeleted(t *testing.T) {
	f := twoGroups()
	s := running(t, f, func(p *Parts) { p.Deleter = &fakeDeleter{source: f} })
	_, list := get(t, s, "/groups?namespace=shop")
	link := address(deletePath, "namespace", "shop", "group", batch)
	if !strings.Contains(list, strings.ReplaceAll(link, "&", "&amp;")) || strings.Contains(list, ">Command<") {
		t.Errorf("the list has no button to %s:\n%s", link, list)
	}
	if _, page := get(t, s, link); !containsAll(page, []string{"Delete this group?", `method="post"`, "1 family, 2 series", `value="` + batch + `"`}) || len(f.groups) != 2 {
		t.Errorf("the page that asks, of %d groups:\n%s", len(f.groups), page)
	}
	routes := s.guard(s.routes())
	if got := post(t, routes, batch, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusOK || !containsAll(got.text.String(), []string{"<h1>Deleted</h1>", "batch", "instance=a/b", "2 series"}) || len(f.groups) != 1 {
		t.Errorf("%d, %d groups are left:\n%s", got.status, len(f.groups), got.text.String())
	}
	if got := post(t, routes, batch, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusNotFound {
		t.Errorf("of a group that is gone: %d", got.status)
	}
	if got := post(t, routes, "/metrics/job/guarded"); got.status != http.StatusForbidden || len(f.groups) != 1 {
		t.Errorf("of a group that the client may not delete: %d, %d groups are left", got.status, len(f.groups))
	}
}

// A page of another site deletes nothing, although the browser adds the token that it knows.
func TestOtherSitesDeleteNothing(t *testing.T) {
	f := twoGroups()
	s := running(t, f, func(p *Parts) { p.Deleter = &fakeDeleter{source: f} })
	routes := s.guard(s.routes())
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
		{"Origin", "http://127.0.0.1:3000"},
	} {
		if got := post(t, routes, batch, header...); got.status != http.StatusForbidden || len(f.groups) != 2 {
			t.Errorf("%q: %d, %d groups are left", header, got.status, len(f.groups))
		}
	}
}

// Without the right, the command stays and a request changes nothing.
func TestOnlyWhoMayDeletesAGroup(t *testing.T) {
	f := twoGroups()
	s := guarded(&fakeAccess{})
	s.parts.Source = f
	deleter := &fakeDeleter{source: f}
	s.parts.Deleter = deleter
	routes := s.guard(s.routes())
	read := func(path, token string) *recorder {
		req, _ := http.NewRequest(http.MethodGet, "http://console.example"+path, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		page := newRecorder()
		routes.ServeHTTP(page, req)
		return page
	}
	for _, c := range []struct {
		token string
		away  bool
		want  int
	}{{"", false, 401}, {"wrong", false, 401}, {"jane", false, 403}, {"root", true, 503}, {"root", false, 200}} {
		deleter.away = c.away
		got := post(t, routes, batch, "Authorization", "Bearer "+c.token)
		if got.status != c.want || (len(f.groups) == 1) != (c.want == 200) {
			t.Errorf("%q: %d, want %d; %d groups are left", c.token, got.status, c.want, len(f.groups))
		}
		if c.want == 403 {
			page := read("/groups?namespace=shop", c.token)
			if text := page.text.String(); !strings.Contains(text, ">Command<") || strings.Contains(text, ">Delete<span") {
				t.Errorf("the list of %q:\n%s", c.token, text)
			}
			page = read(address(deletePath, "namespace", "shop", "group", batch), c.token)
			if text := page.text.String(); !containsAll(text, []string{"curl -X DELETE", "from the namespace shop"}) || strings.Contains(text, `method="post"`) {
				t.Errorf("the page of %q:\n%s", c.token, text)
			}
		}
	}
	s.parts.Deleter, f.groups = nil, twoGroups().groups
	if got := post(t, routes, batch, "Authorization", "Bearer root"); got.status != http.StatusForbidden || len(f.groups) != 2 {
		t.Errorf("a console that deletes nothing: %d", got.status)
	}
}
