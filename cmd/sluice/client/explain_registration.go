package client

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiService is the part of an APIService that an explanation needs. The types of kube-aggregator
// would be a dependency for these fields alone.
type apiService struct {
	Spec struct {
		Service *struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
			Port      *int32 `json:"port"`
		} `json:"service"`
		CABundle []byte `json:"caBundle"`
	} `json:"spec"`
	Status struct {
		Conditions []struct{ Type, Status, Reason, Message string } `json:"conditions"`
	} `json:"status"`
}

// server is the Service without its port, which may be wrong.
func (a *apiService) server() string {
	if a.Spec.Service == nil {
		return ""
	}
	return a.Spec.Service.Namespace + "/" + a.Spec.Service.Name
}

func (a *apiService) service() string {
	if a.Spec.Service == nil {
		return ""
	}
	port := int32(443)
	if a.Spec.Service.Port != nil {
		port = *a.Spec.Service.Port
	}
	return fmt.Sprintf("%s:%d", a.server(), port)
}

const registrations = "/apis/apiregistration.k8s.io/v1/apiservices/"

// registrations reads how the metrics APIs are registered. The API group of lists is Sluice's own,
// so whoever answers for it is Sluice.
func (g *gatherer) registrations() {
	own, err := fetch[apiService](g.ctx, g.api, registrations+inspect.Version+"."+inspect.Group)
	if err != nil && !isAbsent(err) {
		g.unknown("how the metrics APIs are registered", err)
		g.discover()
		return
	}
	g.facts.APIs = map[string]explain.API{}
	// Other products may have registered the older version of a group alone.
	groups := map[string][]string{explain.CustomGroup: {"v1beta2", "v1beta1"}, explain.ExternalGroup: {"v1beta1"}}
	for group, versions := range groups {
		for _, version := range versions {
			a, err := fetch[apiService](g.ctx, g.api, registrations+version+"."+group)
			if err == nil {
				fact := a.fact(own, g.now)
				fact.Name = version + "." + group
				g.facts.APIs[group] = fact
				break
			} else if !isAbsent(err) {
				g.unknown("how "+group+" is registered", err)
				break
			}
			g.facts.APIs[group] = explain.API{}
		}
	}
}

// providers reads which metrics Sluice forwards to other providers. Who may not read it sees what the provider
// answers.
func (g *gatherer) providers() {
	a := &g.facts.Autoscaler
	external := func(m inspect.AutoscalerMetric) bool { return m.Source == inspect.SourceExternal }
	if !g.facts.APIs[explain.ExternalGroup].Sluice || !slices.ContainsFunc(a.Metrics, external) {
		return
	}
	for i, is := range g.metricsAtSluice() {
		if is.Name == a.Metrics[i].Name {
			a.Metrics[i].Provider, a.Metrics[i].ProviderFault = is.Provider, is.ProviderFault
		}
	}
}

// discover looks for groups that are not registered at all: everybody may read which groups there are.
func (g *gatherer) discover() {
	for _, group := range []string{explain.CustomGroup, explain.ExternalGroup} {
		if _, err := g.api.get(g.ctx, "/apis/"+group); isAbsent(err) {
			if g.facts.APIs == nil {
				g.facts.APIs = map[string]explain.API{}
			}
			g.facts.APIs[group] = explain.API{}
		}
	}
}

func (a *apiService) fact(own *apiService, now time.Time) explain.API {
	fact := explain.API{Exists: true, Service: a.service(), Owner: knownOwner(a.service())}
	fact.Sluice = fact.Owner == "" && (own == nil || a.server() == own.server())
	for _, c := range a.Status.Conditions {
		if c.Type == "Available" {
			fact.Available, fact.Reason, fact.Message = c.Status == "True", c.Reason, c.Message
		}
	}
	if _, fault, is := strings.Cut(fact.Message, "x509: "); is && !fact.Available {
		fact.Certificate = fmt.Sprintf("the certificate that %s serves is not accepted (%s); %s", fact.Service,
			fault, a.bundle(now))
	}
	return fact
}

// knownOwner names other products that serve these groups, by their Service.
func knownOwner(service string) string {
	for sign, name := range map[string]string{
		"keda-operator-metrics-apiserver": "KEDA", "prometheus-adapter": "prometheus-adapter",
		"datadog": "Datadog's cluster agent", "custom-metrics-stackdriver-adapter": "Google's Stackdriver adapter",
	} {
		if strings.Contains(service, sign) {
			return name
		}
	}
	return ""
}

// bundle describes the authorities of caBundle.
func (a *apiService) bundle(now time.Time) string {
	block, _ := pem.Decode(a.Spec.CABundle)
	if block == nil {
		return "the APIService has no caBundle"
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "the caBundle of the APIService is no certificate"
	}
	text := fmt.Sprintf("caBundle is the authority %q", authority.Subject.String())
	if now.After(authority.NotAfter) {
		text += ", which ended on " + authority.NotAfter.UTC().Format(time.DateOnly)
	}
	return text
}

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
		return nil, a.notURL()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, answer, err := a.do(req)
	if err != nil {
		return nil, err
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
