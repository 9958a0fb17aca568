package client

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
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
			one, err := fetch[apiService](g.ctx, g.api, registrations+version+"."+group)
			if err == nil {
				fact := one.fact(own, g.now)
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
		fact.Certificate = fmt.Sprintf("the certificate that %s serves is not accepted (%s); %s", fact.Service, fault, a.bundle(now))
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
