package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rights asks which rights the HPA controller lacks, and for the role of the chart that gives them.
func (g *gatherer) rights() {
	var asked []explain.Right
	for _, right := range g.rightsNeeded {
		if right.Group == "" || slices.Contains(asked, right) {
			continue
		}
		asked = append(asked, right)
		allowed, err := g.mayController(right)
		if err != nil {
			g.unknown("whether the HPA controller may read the metrics", err)
			break
		}
		ofGroup := func(r explain.Right) bool { return r.Group == right.Group }
		if !allowed && !slices.ContainsFunc(g.facts.ControllerDenied, ofGroup) {
			g.facts.ControllerDenied = append(g.facts.ControllerDenied, right)
		}
	}
	refused := func(r explain.Reading) bool { return r.Code == http.StatusForbidden }
	if len(g.facts.ControllerDenied) > 0 || slices.ContainsFunc(g.facts.Readings, refused) {
		g.facts.ReaderRole = g.readerRole()
	}
}

// readerRole is the ClusterRole of Sluice's chart that allows to read metrics; empty: there is none.
// A user who may not list roles gets the name that the chart gives it by default.
func (g *gatherer) readerRole() string {
	path := "/apis/rbac.authorization.k8s.io/v1/clusterroles" + query("labelSelector", "app.kubernetes.io/name=sluice")
	roles, err := fetch[rbacv1.ClusterRoleList](g.ctx, g.api, path)
	if err != nil {
		return "sluice-reader"
	}
	for i := range roles.Items {
		if name := roles.Items[i].Name; strings.HasSuffix(name, "-reader") && !strings.Contains(name, "inspect") {
			return name
		}
	}
	return ""
}

func (g *gatherer) mayController(right explain.Right) (bool, error) {
	resource, rest, _ := strings.Cut(right.Resource, "/")
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: g.namespace, Verb: right.Verb, Group: right.Group, Resource: resource, Subresource: rest,
	}
	if resource == "metrics" && right.Group == explain.CustomGroup { // of the namespace: the metric is the name
		attributes.Name, attributes.Subresource = rest, ""
	}
	review := &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               inspect.ControllerUser,
			Groups:             inspect.ControllerGroups(),
			ResourceAttributes: attributes,
		},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	answer, err := g.api.post(g.ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(answer, review); err != nil {
		return false, fmt.Errorf("answer of SubjectAccessReview: %w", err)
	}
	return review.Status.Allowed, nil
}

// post returns the body of a 201 response; the message of any other is an error.
func (a *metricsAPI) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, noAnswer(a.base, a.port, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, noAnswer(a.base, a.port, err)
	}
	if resp.StatusCode == http.StatusCreated {
		return answer, nil
	}
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Message != "" {
		return nil, &refusal{code: resp.StatusCode, message: status.Message}
	}
	return nil, fmt.Errorf("%s: %s", resp.Status, firstLine(answer))
}
