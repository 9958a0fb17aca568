package console

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// Deleter deletes groups of the Pushgateway API by the rules of HTTP push (docs/adr/0107). A nil principal is a
// client of this machine, which the push port asks for nothing.
type Deleter interface {
	// MayDelete reports whether a client may delete a group. A group without a job stands for those of its namespace.
	MayDelete(context.Context, *metric.Principal, *inspect.PushedGroup) (bool, error)
	// Delete deletes a group, and reports whether there was one.
	Delete(*inspect.PushedGroup) bool
}

// deletePath is the page that asks before it deletes, and the only address that takes a POST.
const deletePath = "groups/delete"

// maxForm bounds the body of a POST: the path of a group is shorter than a request's header.
const maxForm = 64 << 10

// deletionContent is a group that is to be deleted, or was.
type deletionContent struct {
	inspect.PushedGroup
	// Path names the group, Back the groups of its namespace.
	Path, Back string
	// May is set if the client may delete it, Done once it is deleted.
	May, Done bool
	Command   Snippet // for those who may not, here
	// Own is set if the command's path means a group of the sender's own namespace.
	Own bool
}

// deletion asks whether to delete a group.
func (s *Server) deletion(ctx context.Context, r *request) (any, error) {
	g, err := r.groupAt(r.query.Get("namespace"), r.query.Get("group"))
	if err != nil {
		return nil, err
	}
	c := &deletionContent{PushedGroup: *g, Path: groupPath(g), Back: address("groups", "namespace", g.Namespace),
		Command: Snippet{"delete", "the command that deletes it", "curl -X DELETE " + explain.Word(s.parts.PushHTTP+groupPath(g))},
		Own:     g.Namespace != "" && g.Labels["namespace"] == ""}
	c.May, err = s.mayDelete(ctx, r, g)
	return c, err
}

// deleteGroup answers the POST of that page.
func (s *Server) deleteGroup(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	p := s.deletionPage()
	p.content = func(ctx context.Context, r *request) (any, error) {
		content, err := s.deletion(ctx, r)
		if err != nil {
			return nil, err
		}
		c := content.(*deletionContent)
		switch {
		case !c.May:
			return nil, &refusal{status: http.StatusForbidden, text: "you may not delete " + c.Path + " here"}
		case !s.parts.Deleter.Delete(&c.PushedGroup):
			return nil, errGroupGone(c.Path)
		}
		c.Done = true
		s.parts.Logger.Info("console: a group was deleted", "group", c.Path, "namespace", c.Namespace, "by", userOf(r.who))
		return c, nil
	}
	s.serve(w, r, r.PostForm, &p)
}

func (s *Server) deletionPage() page {
	return page{deletePath, "Delete a group", "delete.html", 0, 0, inNamespace, s.deletion}
}

// mayDelete reports whether the client may delete a group here.
func (s *Server) mayDelete(ctx context.Context, r *request, g *inspect.PushedGroup) (bool, error) {
	if s.parts.Deleter == nil {
		return false, nil
	}
	may, err := s.parts.Deleter.MayDelete(ctx, r.who, g)
	if err != nil {
		return false, unanswered(err, http.StatusForbidden)
	}
	return may, nil
}

// groupAt finds the group of a namespace by its path.
func (r *request) groupAt(namespace, path string) (found *inspect.PushedGroup, err error) {
	inspect.All(inspect.Query{Namespace: namespace, Most: inspect.MaxMost}, r.source.Groups, func(g *inspect.PushedGroup) bool {
		if g.Namespace == namespace && groupPath(g) == path {
			found = g
		}
		return found == nil
	})
	if found == nil {
		return nil, errGroupGone(path)
	}
	return found, nil
}

func errGroupGone(path string) error {
	return notFound("there is no group %s: it was deleted, or its lifetime ended", strings.TrimPrefix(path, "/metrics"))
}

// userOf names a client for the log.
func userOf(who *metric.Principal) string {
	if who == nil {
		return "a client of this machine"
	}
	return who.User
}

// crossOrigin tells requests of other sites' pages, to which a browser adds the token that it knows.
var crossOrigin = http.NewCrossOriginProtection()

// errReadOnly is the answer to all that isn't a read, except the deletion of a group.
var errReadOnly = errors.New("the console is read-only; only " + deletePath + " takes a POST")

// methodFault is the reason not to take a request's method.
func methodFault(r *http.Request) (status int, err error) {
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return 0, nil
	case r.Method != http.MethodPost || r.URL.Path != "/"+deletePath:
		return http.StatusMethodNotAllowed, errReadOnly
	}
	return http.StatusForbidden, crossOrigin.Check(r)
}
